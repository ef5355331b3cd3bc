"""Which pushes servers have applied: a call that is made anew, as its worker was lost, updates no row twice."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

from tfwave.runtime.embedding.beside import beside
from tfwave.runtime.embedding.handles import free

_CALLS = 2**16
"""That a server remembers: fewer may be scheduled behind one that is made anew, whose turn comes last."""
_PUSHES = 2**32
"""More than a call has."""


class PushLedger:
    """On each server a vector: of each of the last calls its number, and that of its last push that was applied.

    A push comes to a server whole or not at all, and what has come is applied there whatever becomes of the worker:
    TensorFlow goes on with ops that have all that they take. So a number for all rows of a push says enough.
    """

    def __init__(self, neighbours: Sequence[Any]) -> None:
        """`neighbours`: a variable on each server."""
        tensorflow: Any = import_module("tensorflow")
        self._last = [
            beside(own, lambda: tensorflow.zeros([_CALLS], "int64"), "tfwave_pushes") for own in neighbours
        ]

    def pushes(self, call: Any) -> Callable[[int], "Push"]:
        """Those of a call by their numbers: from 1 on, as servers apply them.

        To be made where a traced function begins.

        Args:
            call: its number, a scalar: from 1 on, each other than those before.
        """
        tensorflow: Any = import_module("tensorflow")
        places: list[_Place] = []
        for own in self._last:
            (handle,) = free([own.handle], own.device)
            with tensorflow.device(own.device):
                first = call * _PUSHES
                places.append(_Place(own.handle, handle, call % _CALLS, first, first + _PUSHES))
        return partial(Push, places)


@dataclass(frozen=True)
class _Place:
    """Of a call in the ledger of a server: its `index`, and the numbers of its pushes.

    What is read by `free` waits for nothing that is noted: notes are of this attempt.
    """

    last: Any
    free: Any
    index: Any
    first: Any
    end: Any


@dataclass(frozen=True)
class Push:
    """What servers know of it; each is asked by ops on its own device."""

    places: Sequence[_Place]
    number: int

    def is_new(self, server: int) -> Any:
        """Whether it was not applied there: a scalar. It is, where nothing is known of its call any more."""
        tensorflow: Any = import_module("tensorflow")
        own = self.places[server]
        found = tensorflow.raw_ops.ResourceGather(
            resource=own.free, indices=own.index, dtype=tensorflow.int64
        )
        return (found < own.first + self.number) | (found >= own.end)

    def note(self, server: int) -> None:
        """It was applied there, and those before it; others may have been behind it, in an earlier attempt."""
        raw: Any = import_module("tensorflow").raw_ops
        own = self.places[server]
        raw.ResourceScatterMax(resource=own.last, indices=own.index, updates=own.first + self.number)
