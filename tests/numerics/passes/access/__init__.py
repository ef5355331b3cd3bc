"""Steps that get at state in every way that TensorFlow has, each as small as it can be."""

from tests.numerics.passes.access import others as others
from tests.numerics.passes.access import variables as variables
