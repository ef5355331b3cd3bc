"""Handles of variables for accesses that wait for no other."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any


def free(handles: Sequence[Any], device: str) -> list[Any]:
    """The same variables, by other tensors; they lie on this device.

    TensorFlow has accesses to a variable happen in turn if they have the same tensor as its handle. To make another
    tensor is such an access: make these where a traced function begins.
    """
    tensorflow: Any = import_module("tensorflow")
    with tensorflow.device(device):
        return list(tensorflow.raw_ops.IdentityN(input=handles))
