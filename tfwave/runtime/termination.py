"""SIGTERM as an orderly end: whatever is open is closed, as it is for Ctrl-C."""

import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def exit_on_sigterm() -> Generator[None]:
    """Within it SIGTERM raises `SystemExit`, with the exit code that a shell tells of such an end.

    Without effect where somebody has set what SIGTERM does, and outside the main thread, which alone may.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _exit(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)
