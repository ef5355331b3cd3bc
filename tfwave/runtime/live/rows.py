"""The rows of a batch: what its tensors have as many of as the first one."""

from importlib import import_module
from typing import Any

from tfwave.errors import EnforcerError


def rows_of(batch: tuple[Any, ...]) -> int:
    """How many: the length of the first tensor or array that has one.

    Raises:
        EnforcerError: none has.
    """
    for leaf in _nest().flatten(batch):
        if len(getattr(leaf, "shape", ())):
            return int(leaf.shape[0])
    raise EnforcerError("the step is called with no tensor that has rows: give it its batch")


def first_rows(batch: tuple[Any, ...], rows: int, count: int | None) -> tuple[Any, ...]:
    """The first `count`, of a batch that has more, of all that has as many rows as the batch."""
    if count is None or count >= rows:
        return batch

    def cut(leaf: Any) -> Any:
        shape: Any = getattr(leaf, "shape", ())
        if not len(shape) or int(shape[0]) != rows:
            return leaf
        return leaf[:count] if hasattr(leaf, "__getitem__") else _sparse_rows(leaf, count)

    return _nest().map_structure(cut, batch)


def _sparse_rows(leaf: Any, count: int) -> Any:
    """Of a `tf.SparseTensor`, which has no slices."""
    sparse: Any = import_module("tensorflow").sparse
    return sparse.slice(leaf, [0] * len(leaf.shape), [count, *leaf.shape[1:]])


def _nest() -> Any:
    return import_module("tensorflow").nest
