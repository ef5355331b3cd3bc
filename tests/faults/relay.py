"""A link between two tasks that can be broken: a relay on loopback that resets its connections, or stands still."""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Coroutine
from typing import Any

CHUNK = 1 << 16
LINGER_NONE = struct.pack("ii", 1, 0)
"""To close a socket so resets its connection: the other end is told of an error, not of an end."""
ANSWER_SECONDS = 60


class Relay:
    """What listens at `address` and passes bytes on to `target`, both ways."""

    def __init__(self, target: str) -> None:
        self._target = target.rsplit(":", 1)
        self._ends: set[asyncio.StreamWriter] = set()
        self._flows = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._server = self._do(asyncio.start_server(self._serve, "127.0.0.1"))
        self.address = "127.0.0.1:{1}".format(*self._server.sockets[0].getsockname())
        self.go()

    def reset(self) -> int:
        """Break all connections at once; how many ends they had."""
        return self._do(self._reset())

    def stop(self) -> None:
        """Pass nothing on; connections stay, and so does what is under way."""
        self._loop.call_soon_threadsafe(self._flows.clear)

    def go(self) -> None:
        self._loop.call_soon_threadsafe(self._flows.set)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._server.close)
        self.reset()
        self._do(self._ended())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, what: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(ANSWER_SECONDS)

    async def _reset(self) -> int:
        for end in self._ends:
            end.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NONE)
            end.transport.abort()
        broken, self._ends = len(self._ends), set()
        return broken

    async def _ended(self) -> None:
        """All that passed bytes on has ended."""
        self._flows.set()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, near: asyncio.StreamReader, to_near: asyncio.StreamWriter) -> None:
        try:
            far, to_far = await asyncio.open_connection(*self._target)
        except OSError:
            to_near.transport.abort()  # as on a machine where nothing listens
            return
        self._ends |= {to_near, to_far}
        await asyncio.gather(self._pass(near, to_far), self._pass(far, to_near))
        self._ends -= {to_near, to_far}

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(CHUNK):
                await self._flows.wait()
                sink.write(data)
                await sink.drain()
        sink.close()
