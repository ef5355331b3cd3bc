"""A Ctrl-C that comes while TensorFlow has the main thread: Python raises it only when that is back."""

import signal
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

_NOBODY = -1


class Interrupts:
    """Tells of them at once, so that whatever TensorFlow waits for can end; Python raises them all the same."""

    def __init__(self, on_interrupt: Callable[[], None]) -> None:
        """Call that, from a thread, at each that comes within `heard`, until `close`."""
        self._on_interrupt = on_interrupt
        self._heard, self._told = socket.socketpair()
        self._told.setblocking(False)
        threading.Thread(target=self._listen, name="tfwave-interrupts", daemon=True).start()

    @contextmanager
    def heard(self) -> Generator[None]:
        """Hear them; in no other thread than the main one, nor where the program itself deals with them."""
        hears = self._may_hear() and self._hear()
        try:
            yield
        finally:
            if hears:
                signal.set_wakeup_fd(_NOBODY)

    def close(self) -> None:
        """End the thread."""
        self._told.close()

    def _may_hear(self) -> bool:
        is_main = threading.current_thread() is threading.main_thread()
        return is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def _hear(self) -> bool:
        """Whether nobody else in this process does."""
        before = signal.set_wakeup_fd(self._told.fileno(), warn_on_full_buffer=False)
        if before != _NOBODY:
            signal.set_wakeup_fd(before)
        return before == _NOBODY

    def _listen(self) -> None:
        with self._heard:
            while numbers := self._heard.recv(64):
                if signal.SIGINT in numbers:
                    self._on_interrupt()
