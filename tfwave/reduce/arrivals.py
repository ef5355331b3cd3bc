"""Where a member's neighbours connect. Each connection begins with a key that only members know."""

import errno
import socket
import threading
import time
from collections.abc import Callable

from tfwave.errors import excerpt
from tfwave.reduce.ring import receive
from tfwave.runtime.control.address import EVERYWHERE, is_loopback, shut, split_address

KEY_BYTES = 16
MOST_WAITING = 16
_KEY_SECONDS = 30.0
_AGAIN_SECONDS = 0.1
_FOR_A_WHILE = (errno.ECONNABORTED, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
"""These keep one from taking a connection, and pass: who called has left, or files or memory were all in use."""


class Arrivals:
    """Listens, and keeps what has come under the key that it showed."""

    def __init__(self, host: str, port: int = 0, *, most_waiting: int = MOST_WAITING) -> None:
        """Listen at a port of `host`, or of all interfaces if it is not loopback.

        Args:
            host: a name or address of this machine.
            port: 0: a free one.
            most_waiting: so many connections wait to be asked for; then the oldest is closed.

        Raises:
            OSError: there is none.
        """
        self._most_waiting = most_waiting
        self._listener = _listener(host, port)
        own = self._listener.getsockname()[1]
        self.address = f"[{host}]:{own}" if ":" in host else f"{host}:{own}"
        self._came: dict[bytes, socket.socket] = {}
        self._changed = threading.Condition()
        self._closed = False
        threading.Thread(target=self._listen, name="tfwave-ring-accept", daemon=True).start()

    def take(self, key: bytes, seconds: float, given_up: Callable[[], bool]) -> socket.socket:
        """The connection that shows `key`; all its further reads have this timeout.

        Raises:
            TimeoutError: it has not come, or `given_up` became true (see `wake`).
        """
        with self._changed:
            end = time.monotonic() + seconds
            while key not in self._came:
                left = end - time.monotonic()
                if left <= 0 or given_up():
                    raise TimeoutError("no neighbour came")
                self._changed.wait(left)
            found = self._came.pop(key)
        found.settimeout(seconds)
        return found

    def wake(self) -> None:
        """Have those who wait ask again whether they should."""
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        """Listen no more."""
        shut(self._listener)  # else who waits in `accept` keeps the port
        self._listener.close()
        with self._changed:
            self._closed = True
            for one in self._came.values():
                one.close()
            self._came.clear()

    def _listen(self) -> None:
        while True:
            try:
                came, _ = self._listener.accept()
            except OSError as err:
                if err.errno not in _FOR_A_WHILE:
                    return
                time.sleep(_AGAIN_SECONDS)
                continue
            threading.Thread(target=self._greet, args=(came,), name="tfwave-ring-greet", daemon=True).start()

    def _greet(self, came: socket.socket) -> None:
        key = bytearray(KEY_BYTES)
        try:
            came.settimeout(_KEY_SECONDS)
            came.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            receive(came, memoryview(key))
        except OSError:
            came.close()
            return
        with self._changed:
            if self._closed:  # nobody would take it, and who called would wait for that
                came.close()
                return
            if (before := self._came.pop(bytes(key), None)) is not None:
                before.close()
            while len(self._came) >= self._most_waiting:
                self._came.pop(next(iter(self._came))).close()
            self._came[bytes(key)] = came
            self._changed.notify_all()


def _listener(host: str, port: int) -> socket.socket:
    if is_loopback(host):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=64)
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, backlog=64, dualstack_ipv6=True)
    return socket.create_server((EVERYWHERE, port), backlog=64)


def call(address: str, key: bytes, seconds: float) -> socket.socket:
    """Connect to a member's arrivals, and show a key; all further writes have this timeout.

    Raises:
        OSError: nobody is there, or the address is none.
    """
    try:
        end = socket.create_connection(split_address(address), seconds)
    except ValueError as err:  # another member's word, which no name server has seen
        raise OSError(f"'{excerpt(address)}' is no address: {err}") from err
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    end.sendall(key)
    return end
