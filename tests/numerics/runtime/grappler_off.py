"""Prints 'same' if Grappler's work stays as it is: without a plugin, with one that edits nothing, with it off."""

import sys

from tests.numerics.runtime.gates import Nothing
from tests.numerics.runtime.test_grappler import optimized
from tfwave.runtime.live.grappler import in_grappler

before = optimized()
with in_grappler(Nothing()):
    during = optimized()
after = optimized()
sys.stdout.write("same" if before == during == after else f"{before}\n\n{during}\n\n{after}")
