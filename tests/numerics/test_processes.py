"""A process that is forked reads what TensorFlow reads as one that was started anew."""

import pytest

from tests.numerics.processes import printed_in_pool

pytestmark = pytest.mark.tensorflow

LIMITS = """
from tensorflow.python.util import _pywrap_util_port
from tfwave.colocate import limit_memory
from tfwave.errors import EnvironmentUnsupported
from tfwave.runtime.pool import pool_limit
try:
    limit_memory("48MiB")
except EnvironmentUnsupported:
    limit_memory("64MiB")
    print(pool_limit() >> 20, _pywrap_util_port.IsMklEnabled())
"""


def test_a_forked_process_has_the_pool_that_it_is_given_and_no_onednn() -> None:
    """Which TensorFlow reads as it is imported; the limit, when it makes the pool."""
    assert printed_in_pool(64, "timeit", "-n1", "-r1", LIMITS).splitlines()[0] == "64 False"
