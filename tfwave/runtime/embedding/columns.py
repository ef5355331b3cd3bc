"""A matrix whose columns lie in several variables, as one plain variable in checkpoints."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any


def as_one(parts: Sequence[Any]) -> Any:
    """A `Trackable` that saves and restores variables of shape [rows, width] as one of all their columns.

    TensorFlow's `ShardedVariable` does so for rows, by the same saveables.
    """
    tensorflow: Any = import_module("tensorflow")
    saving: Any = import_module("tensorflow.python.training.saving.saveable_object_util")
    slices = _slices(parts)

    def saveables(name: str) -> list[Any]:
        return [
            saving.ResourceVariableSaveable(part, place, name)
            for part, place in zip(parts, slices, strict=True)
        ]

    class Columns(tensorflow.__internal__.tracking.Trackable):
        def _gather_saveables_for_checkpoint(self) -> dict[str, Any]:
            return {"VARIABLE_VALUE": saveables}

    return Columns()


def _slices(parts: Sequence[Any]) -> list[str]:
    """Where each part lies in the whole, as checkpoints have it: the whole's shape, then start,length by axis."""
    rows, widths = int(parts[0].shape[0]), [int(part.shape[1]) for part in parts]
    starts = [sum(widths[:k]) for k in range(len(widths))]
    return [
        f"{rows} {sum(widths)} 0,{rows}:{start},{width}" for start, width in zip(starts, widths, strict=True)
    ]
