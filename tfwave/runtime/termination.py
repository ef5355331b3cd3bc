"""How processes end: at SIGTERM in order, as at Ctrl-C; when they are asked to; and with their parents."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any

GRACE_SECONDS = 5.0
_PR_SET_PDEATHSIG = 1


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


def bind_to(parent: int) -> bool:
    """Have the kernel kill this process when the thread that started it ends, also behind an `exec` (Linux).

    Returns:
        Whether the process `parent` is still there: if it is not, the kernel was told too late.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == parent


def end_process(process: "subprocess.Popen[Any]") -> None:
    """Terminate it; kill what has not ended within `GRACE_SECONDS`."""
    process.terminate()
    try:
        process.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
