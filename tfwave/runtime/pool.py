"""The CPU's pool of this process: its limit, and what is in use."""

import importlib
import os
from typing import Any

from tfwave.errors import EnforcerError
from tfwave.runtime.allocator import LIMIT, POOL
from tfwave.runtime.planned_pool import opened_pool
from tfwave.sizes import MIB

_DEVICE = "CPU:0"


def pool_limit() -> int:
    """The bytes of TensorFlow's own pool.

    Raises:
        EnforcerError: it was not set up before TensorFlow started.
    """
    limit = os.environ.get(LIMIT, "")
    if os.environ.get(POOL) != "1" or not limit.isdecimal():
        raise _not_set_up()
    _info()
    return int(limit) * MIB


def any_pool_limit() -> int:
    """The bytes of the pool, be it TensorFlow's own or a planned one.

    Raises:
        EnforcerError: neither was set up before TensorFlow started.
    """
    planned = opened_pool()
    return pool_limit() if planned is None else planned.limit_bytes


def pool_in_use() -> int:
    """The bytes that all have in the pool now.

    Raises:
        EnforcerError: there is no pool.
    """
    return int(_info()["current"])


def _info() -> Any:
    tensorflow: Any = importlib.import_module("tensorflow")
    try:
        return tensorflow.config.experimental.get_memory_info(_DEVICE)
    except ValueError as err:
        raise _not_set_up() from err


def _not_set_up() -> EnforcerError:
    return EnforcerError(
        "the CPU's pool has no limit: call tfwave.colocate.limit_memory('512MiB') before TensorFlow is imported"
    )
