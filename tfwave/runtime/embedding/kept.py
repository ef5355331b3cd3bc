"""Rows that a worker keeps while a call needs them again, as ops of a traced function."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

from tfwave.graph.access import ANONYMOUS
from tfwave.runtime.embedding.optimizers import RowOptimizer


class _Held(NamedTuple):
    handle: Any


class KeptRows:
    """Copies of rows of one width, and of what their optimizer keeps beside them."""

    def __init__(self, slots: int, count: Any, width: int) -> None:
        """Room for so many rows."""
        self._tf: Any = import_module("tensorflow")
        empty = self._tf.zeros([count, width])
        self._held = [self._made(empty) for _ in range(1 + slots)]

    def _made(self, value: Any) -> _Held:
        raw = self._tf.raw_ops
        handle = raw.VarHandleOp(dtype=self._tf.float32, shape=[None, value.shape[1]], shared_name=ANONYMOUS)
        raw.AssignVariableOp(resource=handle, value=value)
        return _Held(handle)

    def put(self, places: Any, values: Sequence[Any]) -> None:
        """Take rows, and the values of their slots."""
        for held, value in zip(self._held, values, strict=True):
            self._tf.raw_ops.ResourceScatterUpdate(resource=held.handle, indices=places, updates=value)

    def rows(self, places: Any) -> Any:
        """What these are now."""
        held = self._held[0]
        return self._tf.raw_ops.ResourceGather(resource=held.handle, indices=places, dtype=self._tf.float32)

    def apply(self, places: Any, gradients: Any, optimizer: RowOptimizer) -> None:
        """Update rows by the kernels that the servers have, and so to the same bits."""
        optimizer.apply(self._held[0], self._held[1:], places, gradients)
