"""A ring all-reduce over TCP: each member sends 2 (n - 1) / n of the array, as much as the wire must carry."""

import queue
import socket
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from tfwave.reduce.held import Vector
from tfwave.reduce.spare import Spare
from tfwave.runtime.control.address import shut

PIECE_BYTES = 1 << 18
"""Sent and added at once: small enough that adding hides behind what is still on its way."""


class RingBroken(Exception):
    """The reduce did not end here; whether it did elsewhere is for the coordinator to say."""


class Ring:
    """One member's place in a ring: a socket to the left to read from, and one to the right to write to.

    A thread writes while the caller's reads and adds; what was added goes on piece by piece, so that the wire never
    waits for a part to be whole. All members get the same bits, as each part is summed once, in the order of the
    ring, and then passed on. Neither side waits longer than the sockets' timeouts for a byte.
    """

    def __init__(
        self, index: int, members: int, left: socket.socket | None, right: socket.socket | None
    ) -> None:
        """Take the sockets; both are None if the member is alone."""
        self.index = index
        self.members = members
        self._left = left
        self._right = right
        self._spare = Spare()
        self._unsent: queue.SimpleQueue[memoryview | None] = queue.SimpleQueue()
        if right is not None:
            threading.Thread(target=self._send, name="tfwave-ring", daemon=True).start()

    def sum(self, values: Vector, buckets: Iterable[slice] = (slice(None),)) -> Vector:
        """The sum of `values`, a flat array of the same length and type on all members, over them.

        Neither array may change afterwards: their last parts may still be on their way.

        Args:
            values: of this member.
            buckets: slices that make all of it, the same on all members; each must have its values only when the
                iterator gives it.

        Raises:
            RingBroken: a neighbour is gone, silent for too long, or `stop` was called; or a bucket does not come.
        """
        total = self._spare.flat(values.size, values.dtype)
        try:
            for bucket in buckets:
                self._sum(values[bucket], total[bucket])
        except OSError as err:
            raise RingBroken(str(err)) from err
        return total

    def _sum(self, values: Vector, total: Vector) -> None:
        if self._left is None:
            total[:] = values
            return
        n, i = self.members, self.index
        for piece in _pieces(values, i, n):
            self._unsent.put(_raw(values[piece]))
        for step in range(1, 2 * n - 1):  # n - 1 parts to add to, and as many sums
            for piece in _pieces(values, (i - step) % n, n):
                receive(self._left, _raw(total[piece]))
                if step < n:
                    np.add(values[piece], total[piece], out=total[piece])
                if step < 2 * n - 2:
                    self._unsent.put(_raw(total[piece]))

    def stop(self) -> None:
        """Break what is under way; from any thread."""
        for end in (self._left, self._right):
            if end is not None:
                shut(end)

    def close(self) -> None:
        """Give the sockets back."""
        self.stop()
        self._unsent.put(None)
        for end in (self._left, self._right):
            if end is not None:
                end.close()

    def _send(self) -> None:
        assert self._right is not None
        try:
            while (data := self._unsent.get()) is not None:
                self._right.sendall(data)
        except OSError:
            self.stop()


def _pieces(values: Vector, part: int, parts: int) -> Iterator[slice]:
    """One of the parts, cut."""
    start, end = (len(values) * p // parts for p in (part, part + 1))
    length = max(1, PIECE_BYTES // values.itemsize)
    for first in range(start, end, length):
        yield slice(first, min(end, first + length))


def receive(end: socket.socket, into: memoryview) -> None:
    """Fill `into` from a socket.

    Raises:
        OSError: it was closed, or its timeout passed without a byte.
    """
    while len(into):
        count = end.recv_into(into)
        if count == 0:
            raise ConnectionError("a neighbour closed its connection")
        into = into[count:]


def _raw(values: Vector) -> memoryview:
    flat: Any = values.view(np.uint8)
    return memoryview(flat)
