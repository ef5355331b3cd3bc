"""Strategies with replicas, of which a test process makes many."""

from itertools import count
from typing import Any

import tensorflow as tf

_bases = count(10_000, 1_000)


def mirrored(*devices: str) -> Any:
    """A MirroredStrategy whose collectives meet those of no strategy before it.

    By default all strategies of a process share their keys. TensorFlow refuses a collective of another type under
    a key that it knows, and one of another strategy can wait for ever for the rest of its group.
    """
    made = type("Apart", (tf.distribute.MirroredStrategy,), {"_collective_key_base": next(_bases)})
    return made(list(devices))
