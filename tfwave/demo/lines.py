"""JSON objects, one a line, over a pair of pipes, with deadlines."""

import json
import os
import select
import time
from collections.abc import Mapping
from typing import Any

_CHUNK_BYTES = 1 << 16


class JsonLines:
    """Reads from one file descriptor and writes to another; never waits longer than told."""

    def __init__(self, reads: int, writes: int) -> None:
        """Take over two file descriptors; their owner closes them."""
        os.set_blocking(writes, False)
        self._reads = reads
        self._writes = writes
        self._unread = b""

    def send(self, message: Mapping[str, object], end: float) -> None:
        """Write a message until `end`, a time of `time.monotonic`.

        Raises:
            TimeoutError: the reader takes no more.
            BrokenPipeError: nobody reads any more.
        """
        rest = memoryview(json.dumps(message).encode() + b"\n")
        while rest:
            _wait(self._writes, select.POLLOUT, end)
            rest = rest[os.write(self._writes, rest[: select.PIPE_BUF]) :]

    def receive(self, end: float) -> dict[str, Any]:
        """Read a message until `end`, a time of `time.monotonic`.

        Raises:
            TimeoutError: none came.
            EOFError: none will come any more.
            ValueError: it is not a JSON object.
        """
        while b"\n" not in self._unread:
            _wait(self._reads, select.POLLIN, end)
            chunk = os.read(self._reads, _CHUNK_BYTES)
            if not chunk:
                raise EOFError
            self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        message = json.loads(line)
        if not isinstance(message, dict):
            raise ValueError(f"not an object: {line[:80]!r}")
        return message  # pyright: ignore[reportUnknownVariableType]


def _wait(descriptor: int, event: int, end: float) -> None:
    poller = select.poll()
    poller.register(descriptor, event)
    if not poller.poll(max(0.0, end - time.monotonic()) * 1000):
        raise TimeoutError
