"""A ring all-reduce over TCP: each member sends 2 (n - 1) / n of the array, as much as the wire must carry."""

import queue
import socket
import threading
from typing import Any

import numpy as np

from tfwave.reduce.held import Vector

PIECE_BYTES = 1 << 18
"""Sent and added at once: small enough that adding hides behind what is still on its way."""


class RingBroken(Exception):
    """The reduce did not end here; whether it did elsewhere is for the coordinator to say."""


class Ring:
    """One member's place in a ring: a socket to the left to read from, and one to the right to write to.

    A thread writes while the caller's reads and adds. All members get the same bits, as each part is summed once,
    in the order of the ring, and then passed on. Neither side waits longer than the sockets' timeouts for a byte.
    """

    def __init__(
        self, index: int, members: int, left: socket.socket | None, right: socket.socket | None
    ) -> None:
        """Take the sockets; both are None if the member is alone."""
        self.index = index
        self.members = members
        self._left = left
        self._right = right
        self._unsent: queue.SimpleQueue[memoryview | None] = queue.SimpleQueue()
        if right is not None:
            threading.Thread(target=self._send, name="tfwave-ring", daemon=True).start()

    def sum(self, values: Vector) -> None:
        """Replace `values`, a flat array of the same length and type on all members, by the sum over them.

        The array must not change afterwards: its last part may still be on its way.

        Raises:
            RingBroken: a neighbour is gone, silent for too long, or `stop` was called.
        """
        if self._left is None:
            return
        n, i = self.members, self.index
        parts = [values[len(values) * p // n : len(values) * (p + 1) // n] for p in range(n)]
        spare = np.empty(max(1, PIECE_BYTES // values.itemsize), values.dtype)
        try:
            for s in range(n - 1):
                self._unsent.put(_raw(parts[(i - s) % n]))
                self._add(parts[(i - s - 1) % n], spare)
            for s in range(n - 1):
                self._unsent.put(_raw(parts[(i + 1 - s) % n]))
                receive(self._left, _raw(parts[(i - s) % n]))
        except OSError as err:
            raise RingBroken(str(err)) from err

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

    def _add(self, part: Vector, spare: Vector) -> None:
        assert self._left is not None
        for start in range(0, len(part), len(spare)):
            piece = part[start : start + len(spare)]
            came = spare[: len(piece)]
            receive(self._left, _raw(came))
            np.add(piece, came, out=piece)

    def _send(self) -> None:
        assert self._right is not None
        try:
            while (data := self._unsent.get()) is not None:
                for start in range(0, len(data), PIECE_BYTES):
                    self._right.sendall(data[start : start + PIECE_BYTES])
        except OSError:
            self.stop()


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


def shut(end: socket.socket) -> None:
    """Wake who reads or writes a socket; nothing if it is closed already."""
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        return


def _raw(values: Vector) -> memoryview:
    flat: Any = values.view(np.uint8)
    return memoryview(flat)
