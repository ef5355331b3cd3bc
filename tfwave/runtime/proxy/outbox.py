"""Where responses wait for gRPC to take them."""

import logging
import threading
from queue import Empty, SimpleQueue

from tfwave.runtime.proxy.step import Go

IDLE_SECONDS = 10.0

_LOGGER = logging.getLogger("tfwave.proxy")


class Outbox:
    """Sends to each receiver in the order of submission, one after the other. Thread-safe.

    Sending blocks until gRPC's buffer has room. Each receiver has a thread of its own, as long as there is
    something for it: one that reads slowly delays no other. Where the system gives no thread, who submits
    sends.
    """

    def __init__(self, idle_seconds: float = IDLE_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        self._mu = threading.Lock()
        self._lines: dict[str, SimpleQueue[Go]] = {}

    def submit(self, receiver: str, send: Go) -> None:
        """Send after all that was submitted for the same receiver; returns at once, if there is a thread."""
        with self._mu:
            line = self._lines.get(receiver) or self._begun(receiver)
            if line is not None:
                line.put(send)
                return
        _send(receiver, send)

    def close(self) -> None:
        """End the threads that have nothing to send; the others end when they have sent it."""
        with self._mu:
            self._idle_seconds = 0.0
            for line in self._lines.values():
                line.put(_nothing)

    def _begun(self, receiver: str) -> "SimpleQueue[Go] | None":
        line: SimpleQueue[Go] = SimpleQueue()
        name = f"tfwave-send-{receiver}"
        try:
            threading.Thread(target=self._serve, args=(receiver, line), name=name, daemon=True).start()
        except RuntimeError:  # as Python says that there is none
            return None
        self._lines[receiver] = line
        return line

    def _serve(self, receiver: str, line: "SimpleQueue[Go]") -> None:
        while True:
            try:
                send = line.get(timeout=self._idle_seconds)
            except Empty:
                with self._mu:
                    if line.empty():
                        del self._lines[receiver]
                        return
                continue
            _send(receiver, send)


def _send(receiver: str, send: Go) -> None:
    try:
        send()
    except Exception:  # whatever gRPC makes of one response, the next ones wait behind it
        _LOGGER.exception("a response to %s was not sent", receiver)


def _nothing() -> None:
    """Wakes a thread."""
