"""A member's seat in the ring, which is formed anew whenever somebody comes or goes."""

import socket
from collections.abc import Callable, Iterable

from tfwave.proto.reduce_pb2 import Form
from tfwave.reduce.arrivals import Arrivals, call
from tfwave.reduce.held import Vector
from tfwave.reduce.options import MOST_WORKERS
from tfwave.reduce.ring import Ring, RingBroken

_BREAKING = ("form", "halt", "end")
"""Orders of these kinds end what is under way."""


class Seat:
    """Forms the ring as it is told, and sums over it.

    The methods are for the thread that carries orders out, but `hear`, `leave`, `take`, `wake` and `is_broken`,
    which are for any.

    Attributes:
        trouble: why there is no ring, or no sum, if it is this member that knows.
    """

    def __init__(self, host: str, deadline: float) -> None:
        """Listen for neighbours at a free port; none is waited for longer than `deadline`, in seconds.

        Raises:
            OSError: there is none, or the address is none of this machine.
        """
        self._arrivals = Arrivals(host)
        self._deadline = deadline
        self._ring: Ring | None = None
        self._left = False
        self._breaks_heard = self._breaks_begun = 0
        self.trouble = ""

    @property
    def address(self) -> str:
        """Where neighbours call."""
        return self._arrivals.address

    @property
    def members(self) -> int:
        """How many the ring has, this one included."""
        return 1 if (ring := self._ring) is None else ring.members

    @property
    def index(self) -> int | None:
        """This member's number in the ring; None if there is no ring."""
        return None if (ring := self._ring) is None else ring.index

    def hear(self, kind: str | None) -> None:
        """An order has come, whose turn may not be yet: what it ends is ended now."""
        if kind in _BREAKING:
            self._breaks_heard += 1
            if (ring := self._ring) is not None:
                ring.stop()
            self._arrivals.wake()

    def begin(self, kind: str | None) -> None:
        """The turn of an order has come."""
        self._breaks_begun += kind in _BREAKING

    def form(self, form: Form) -> None:
        """Leave the ring for another one; or for none, then `trouble` says why."""
        if self._ring is not None:
            self._ring.close()
        self._ring, self.trouble = None, ""
        if not form.index < form.members <= MOST_WORKERS:
            self.trouble = f"no ring has a member {form.index} of {form.members}"
            return
        left = right = None
        try:
            if form.members > 1:
                right = call(form.next, form.key, self._deadline)
                left = self._arrivals.take(form.key, self._deadline, self.is_broken)
        except OSError as err:
            if right is not None:
                right.close()
            self.trouble = f"no ring with the member at {form.next} ({err})"
            return
        self._ring = Ring(form.index, form.members, left, right)

    def sum(self, values: Vector, buckets: Iterable[slice]) -> Vector | None:
        """As `Ring.sum`; None if there is no ring, or it broke or is about to."""
        if self._ring is None or self.is_broken():
            return None
        try:
            return self._ring.sum(values, buckets)
        except RingBroken as err:
            self.trouble = str(err)
            return None

    def take(self, key: bytes, seconds: float, given_up: Callable[[], bool] = lambda: False) -> socket.socket:
        """As `Arrivals.take`, until this member leaves."""
        return self._arrivals.take(key, seconds, lambda: self._left or given_up())

    def wake(self) -> None:
        """As `Arrivals.wake`."""
        self._arrivals.wake()

    def leave(self) -> None:
        """Wait for nobody any more."""
        self._left = True
        self._arrivals.wake()

    def close(self) -> None:
        """Give the ring and the port back."""
        self._arrivals.close()
        if self._ring is not None:
            self._ring.close()

    def is_broken(self) -> bool:
        """Whether what is under way has ended, or is about to."""
        return self._left or self._breaks_heard > self._breaks_begun
