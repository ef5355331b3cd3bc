"""A gradient that comes in buckets: a reduce sums those that are there while the rest is still computed."""

import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

from tfwave.reduce.held import Vector

LEAST_BYTES = 4 << 20
"""Of a bucket, but of the last one: less would cost more in waiting for neighbours than it hides."""


def buckets_of(sizes: Sequence[int], itemsize: int) -> list[range]:
    """Neighbours among arrays that go together, the last ones first: backward makes their gradients first.

    Args:
        sizes: elements of each array.
        itemsize: bytes of an element.
    """
    made, end, held = list[range](), len(sizes), 0
    for first in reversed(range(len(sizes))):
        held += sizes[first] * itemsize
        if held >= LEAST_BYTES:
            made.append(range(first, end))
            end, held = first, 0
    if end:
        made.append(range(end))
    return made


def slices_of(buckets: Sequence[range], sizes: Sequence[int]) -> list[slice]:
    """Where each bucket is in one array of all."""
    ends = list(accumulate(sizes, initial=0))
    return [slice(ends[bucket.start], ends[bucket.stop]) for bucket in buckets]


class Growing:
    """One array that fills up; one thread puts, another takes.

    Attributes:
        values: the array; not to be read where it is not filled.
        is_handed: whether it is among those that a reduce may take.
        was_late: whether a reduce gave up waiting for the rest of it.
    """

    def __init__(self, values: Vector, parts: Sequence[slice]) -> None:
        """Begin with nothing; `parts` of it will come, in this order."""
        self.values = values
        self.is_handed = self.was_late = False
        self._parts = parts
        self._there = 0
        self._is_given_up = False
        self._changed = threading.Condition()

    @property
    def missing(self) -> int:
        """How many parts are not there."""
        return len(self._parts) - self._there

    @property
    def is_begun(self) -> bool:
        """Whether any part is there."""
        return self._there > 0

    def put(self, piece: Vector) -> None:
        """Copy the next part."""
        self.values[self._parts[self._there]] = piece
        with self._changed:
            self._there += 1
            self._changed.notify_all()

    def give_up(self) -> None:
        """No more will come."""
        with self._changed:
            self._is_given_up = True
            self._changed.notify_all()

    def wake(self) -> None:
        """Have who takes ask again whether it is still to wait."""
        with self._changed:
            self._changed.notify_all()

    def parts(self, seconds: float, is_over: Callable[[], bool]) -> Iterator[slice]:
        """Each part once it is there; who takes no more wakes this when `is_over` becomes true.

        Raises:
            TimeoutError: one has not come within so many seconds, or will not.
        """
        for number, part in enumerate(self._parts, 1):
            with self._changed:
                self._changed.wait_for(
                    lambda n=number: self._has(n) or self._is_given_up or is_over(), seconds
                )
                if not self._has(number):
                    self.was_late = not (self._is_given_up or is_over())
                    raise TimeoutError("a gradient was begun, and its rest has not come")
            yield part

    def _has(self, number: int) -> bool:
        return self._there >= number
