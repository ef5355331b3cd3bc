"""Knowing that a `fit` has ended: Keras tells its callbacks nothing when an exception ends it."""

import atexit
import gc
import inspect
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

_POLL_SECONDS = 0.2
_PATIENCE_SECONDS = 60
_INTERPRETER: Any = sys  # the frames of other threads are documented, but not typed
_LEFT = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
"""The kinds of code whose frames have no caller while they are left, to be gone on with."""
_WATCHERS: WeakKeyDictionary[threading.Thread, threading.Event] = WeakKeyDictionary()
"""Each thread that looks after a fit, and what stops it."""


class FitFrame:
    """The call of `fit` on the stack above a callback, looked after until it has left the stack."""

    def __init__(self, frame: FrameType, on_end: Callable[[], None]) -> None:
        """Call `on_end`, from another thread, when `frame` has ended; not after `release`."""
        self._frame: FrameType | None = frame
        self._thread_id = threading.get_ident()
        self._on_end = on_end
        self._released = threading.Event()
        watcher = threading.Thread(target=self._watch, name="tfwave-fit", daemon=True)
        watcher.start()
        _WATCHERS[watcher] = self._released

    @classmethod
    def of_caller(cls, on_end: Callable[[], None]) -> "FitFrame | None":
        """Of the nearest `fit` that calls; None if there is none."""
        frame = inspect.currentframe()
        while frame is not None and frame.f_code.co_name != "fit":
            frame = frame.f_back
        return None if frame is None else cls(frame, on_end)

    @property
    def has_ended(self) -> bool:
        """Has it left the stack? It may not have been told yet."""
        return not self._runs()

    def release(self) -> None:
        """Look no longer; what is about to be told is told all the same."""
        self._released.set()

    def _watch(self) -> None:
        while self._runs():
            if self._released.wait(_POLL_SECONDS):
                break
        if not self._released.is_set():
            self._on_end()
        self._frame = None  # perhaps the last that holds the model: TensorFlow may take seconds to end it

    def _runs(self) -> bool:
        """True, too, where nobody knows: the thread goes on meanwhile, and may leave the frame that was found."""
        frame = _frames_by_thread().get(self._thread_id)
        outermost = None
        while frame is not None and frame is not self._frame:
            outermost, frame = frame, frame.f_back
        return frame is not None or (outermost is not None and bool(outermost.f_code.co_flags & _LEFT))


def _frames_by_thread() -> dict[int, FrameType]:
    """Where each thread is, without garbage collection meanwhile.

    Python 3.11 holds a lock for it that all threads need to begin and to end. What is collected then, as a graph of
    TensorFlow, may wait for such a thread, and the process would stand still.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return _INTERPRETER._current_frames()
    finally:
        if collects:
            gc.enable()


@atexit.register
def _stop_watchers() -> None:
    """Python cuts threads off as it ends: in TensorFlow's destructors, as of a fit's data, that is an abort."""
    watchers = dict(_WATCHERS)
    for released in watchers.values():
        released.set()
    for watcher in watchers:
        watcher.join(_PATIENCE_SECONDS)
