"""What a member gives: whole gradients, and one that comes in buckets."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tfwave.reduce.growing import Growing
from tfwave.reduce.held import Held, Vector
from tfwave.reduce.spare import Spare


class Giving:
    """Gradients on their way into reduces; the methods are called under the lock of the member.

    Where each reduce has a gradient of every member, one may be handed over with its first bucket: it is summed
    while the rest is computed. One that a reduce waited for in vain is taken back, and handed over when it is
    whole, as are all that follow: this member's are slow to come.
    """

    def __init__(self, held: Held, size: int, dtype: Any, buckets: Sequence[slice], patience: float) -> None:
        """Take what holds whole ones.

        Args:
            held: where gradients wait.
            size: elements of one.
            dtype: of one.
            buckets: of which one is made, in the order in which they come.
            patience: seconds in which the next bucket must come once a reduce waits for it.
        """
        self.held = held
        self._size, self._dtype, self._buckets = size, dtype, buckets
        self._patience = patience
        self._spare = Spare()
        self._growing: Growing | None = None
        self._abandoned: Growing | None = None
        self._is_slow = False

    @property
    def is_last_next(self) -> bool:
        """Whether the next bucket makes whole what was begun."""
        return self._growing is not None and self._growing.missing == 1

    def hand(self, version: int, *, early: bool) -> bool:
        """Hand a gradient over, if that is due before its next bucket; whether it was.

        Args:
            version: the number of the last reduce in the weights that it is of.
            early: whether it may be before it is whole, if nothing else waits.
        """
        if self._growing is None:
            self._growing = Growing(self._spare.flat(self._size, self._dtype), self._buckets)
        growing, held = self._growing, self.held
        is_early = early and not (self._is_slow or growing.is_begun or held.waiting or held.lent)
        if growing.is_handed or not (is_early or growing.missing == 1):
            return False
        growing.is_handed = True
        held.waiting.append((growing.values, version))
        return True

    def put(self, piece: Vector) -> None:
        """Give the next bucket."""
        assert self._growing is not None
        self._growing.put(piece)
        if not self._growing.missing:
            self._growing = None

    def abandon(self) -> bool:
        """The rest of a gradient will not come; whether one was begun."""
        growing, self._growing = self._growing, None
        if growing is None:
            return False
        self.held.retract(growing.values)
        growing.give_up()
        self._abandoned = growing if growing.is_handed else None
        return True

    def take(self, version: int, is_over: Callable[[], bool]) -> tuple[Vector, Iterable[slice]]:
        """What goes into the reduce of this number, and its buckets, each as it may be read.

        Who waits for one is woken by `wake` if `is_over` changes. A reduce may have been ordered for a gradient
        that was abandoned before the coordinator knew: it gets that one, whose rest does not come.
        """
        given, growing = self.held.take(version), self._growing
        abandoned, self._abandoned = self._abandoned, None
        if given is None and abandoned is not None:
            given, growing = abandoned.values, abandoned
        if growing is not None and given is growing.values:
            return growing.values, growing.parts(self._patience, is_over)
        return self.whole(given)

    def whole(self, given: Vector | None) -> tuple[Vector, Iterable[slice]]:
        """What is there, or in place of None what changes no bit of a sum, and its buckets."""
        return np.full(self._size, -0.0, self._dtype) if given is None else given, self._buckets

    def wake(self) -> None:
        """From any thread: see `take`."""
        if (growing := self._growing) is not None:
            growing.wake()

    def come_to_nothing(self) -> None:
        """A reduce broke here: what is not whole cannot be given again at once."""
        growing = self._growing
        if growing is not None and growing.is_handed:
            growing.is_handed = False
            self._is_slow |= growing.was_late
            self.held.retract(growing.values)
