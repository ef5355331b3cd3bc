"""A matrix that lies in several variables, here or in several processes, as one plain variable in checkpoints."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any


def as_one(parts: Sequence[Any]) -> Any:
    """A `Trackable` that saves and restores variables of shape [rows, width] as one of all their columns.

    TensorFlow's `ShardedVariable` does so for rows, by the same saveables.
    """
    rows, widths = int(parts[0].shape[0]), [int(part.shape[1]) for part in parts]
    starts = [sum(widths[:k]) for k in range(len(widths))]
    slices = [
        slice_of((rows, sum(widths)), (0, start), (rows, width))
        for start, width in zip(starts, widths, strict=True)
    ]
    return _sliced(parts, slices)


def as_rows_of(whole: int, first: int, part: Any) -> Any:
    """A `Trackable` that saves and restores a variable as the rows from `first` on of one that has so many."""
    return _sliced([part], [rows_slice(whole, first, part)])


def rows_slice(whole: int, first: int, part: Any) -> str:
    """Where a variable's rows lie in one that has `whole` of them."""
    height, width = map(int, part.shape)
    return slice_of((whole, width), (first, 0), (height, width))


def slice_of(whole: Sequence[int], starts: Sequence[int], sizes: Sequence[int]) -> str:
    """A part of a tensor as checkpoints have it: the whole's shape, then start,length by axis."""
    places = (f"{start},{size}" for start, size in zip(starts, sizes, strict=True))
    return f"{' '.join(map(str, whole))} {':'.join(places)}"


def _sliced(parts: Sequence[Any], slices: Sequence[str]) -> Any:
    tensorflow: Any = import_module("tensorflow")
    saving: Any = import_module("tensorflow.python.training.saving.saveable_object_util")

    def saveables(name: str) -> list[Any]:
        return [
            saving.ResourceVariableSaveable(part, place, name)
            for part, place in zip(parts, slices, strict=True)
        ]

    class Parts(tensorflow.__internal__.tracking.Trackable):
        def _gather_saveables_for_checkpoint(self) -> dict[str, Any]:
            return {"VARIABLE_VALUE": saveables}

    return Parts()
