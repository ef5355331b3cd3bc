"""Which pushes servers have applied: a call that is made anew, as its worker was lost, updates no row twice."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

from tfwave.runtime.embedding.beside import beside

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

        To be made where a traced function begins: what is noted of a push then holds up no look at the next.

        Args:
            call: its number, a scalar: from 1 on, each other than those before.
        """
        tensorflow: Any = import_module("tensorflow")
        free: list[Any] = []
        for own in self._last:
            with tensorflow.device(own.device):
                free += tensorflow.raw_ops.IdentityN(input=[own.handle])
        return partial(Push, [own.handle for own in self._last], free, call)


@dataclass(frozen=True)
class Push:
    """What servers know of it; each is asked by ops on its own device."""

    last: Sequence[Any]
    free: Sequence[Any]
    call: Any
    number: int

    def is_new(self, server: int) -> Any:
        """Whether it was not applied there: a scalar. It is, where nothing is known of its call any more."""
        tensorflow: Any = import_module("tensorflow")
        found = tensorflow.raw_ops.ResourceGather(
            resource=self.free[server], indices=self.call % _CALLS, dtype=tensorflow.int64
        )
        first = self.call * _PUSHES
        return (found < first + self.number) | (found >= first + _PUSHES)

    def note(self, server: int) -> None:
        """It was applied there, and those before it; others may have been behind it, in an earlier attempt."""
        tensorflow: Any = import_module("tensorflow")
        tensorflow.raw_ops.ResourceScatterMax(
            resource=self.last[server],
            indices=self.call % _CALLS,
            updates=self.call * _PUSHES + self.number,
        )
