"""Messages between a member and its coordinator by TCP: each reduce waits for four of them."""

import socket
import struct
from collections.abc import Iterator
from contextlib import suppress

from tfwave.runtime.control.address import shut

MOST_BYTES = 1 << 22
"""As in gRPC; no message comes near."""
_LENGTH = struct.Struct("!I")
_TIMEVAL = struct.Struct("ll")
_LEAST_SECONDS = 1e-3
_ALIVE = ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3))
"""Either end notices within a minute that the other's machine is gone."""


class Link:
    """One end: a message is its length and its bytes. One thread reads, and one at a time writes."""

    def __init__(self, end: socket.socket, seconds: float) -> None:
        """Take a connection, whose other end may be without room for a message for so long."""
        end.settimeout(None)
        seconds = max(seconds, _LEAST_SECONDS)
        limit = _TIMEVAL.pack(int(seconds), int(seconds % 1 * 1e6))
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _ALIVE:
            end.setsockopt(socket.IPPROTO_TCP, option, value)
        self._end = end

    def send(self, message: bytes) -> None:
        """Send one; where that fails the link ends, which its reader sees."""
        try:
            self._end.sendall(_LENGTH.pack(len(message)) + message)
        except OSError:
            self.stop()

    def __iter__(self) -> Iterator[bytes]:
        """What comes, until the other end says no more, or either breaks off; then it is closed."""
        with self._end, suppress(OSError), self._end.makefile("rb") as came:
            while len(head := came.read(_LENGTH.size)) == _LENGTH.size:
                (size,) = _LENGTH.unpack(head)
                if size > MOST_BYTES or len(message := came.read(size)) < size:
                    return
                yield message

    def finish(self) -> None:
        """Say no more; what was said arrives."""
        with suppress(OSError):
            self._end.shutdown(socket.SHUT_WR)

    def stop(self) -> None:
        """Break off; from any thread."""
        shut(self._end)
