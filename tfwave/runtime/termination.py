"""SIGTERM as an orderly end: of this process, in which whatever is open is closed, as for Ctrl-C, and of others."""

import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any

GRACE_SECONDS = 5.0


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


def end_process(process: "subprocess.Popen[Any]") -> None:
    """Terminate it; kill what has not ended within `GRACE_SECONDS`."""
    process.terminate()
    try:
        process.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
