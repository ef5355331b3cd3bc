"""Sessions whose threads take only the cores' time that all other threads leave."""

import importlib
import os
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tfwave.errors import EnforcerError

OWN_THREADS = "TF_OVERRIDE_GLOBAL_THREADPOOL"
"""TensorFlow reads it as it makes its first device: each one's ops are computed in threads of its own."""
_LOWERED: weakref.WeakSet[Any] = weakref.WeakSet()
_MAKING = threading.Lock()


def background_session(graph: Any = None, config: Any = None) -> Any:
    """A session for a `Job(background=True)`: the kernel lets its threads run where no other wants the core.

    They are its own, those that start ops and those that compute them, and all are of the policy SCHED_IDLE. That
    needs no root. The thread that calls `run` stays as it is.

    Args:
        graph: as of `tf.compat.v1.Session`.
        config: a `tf.compat.v1.ConfigProto`, as there; it is not changed.

    Raises:
        EnforcerError: sessions share their threads, as `limit_memory(..., own_threads=True)` was not called, or no
            thread can be lowered here.
    """
    v1: Any = importlib.import_module("tensorflow").compat.v1
    own = v1.ConfigProto()
    own.CopyFrom(config or v1.ConfigProto())
    own.use_per_session_threads = True
    own.inter_op_parallelism_threads = max(own.inter_op_parallelism_threads, 0) or len(
        os.sched_getaffinity(0)
    )
    with _MAKING:
        before = _lowered_threads()
        session, maker = _made_lowered(lambda: v1.Session(graph=graph, config=own))
        threads = _lowered_threads() - before - {maker}
    if len(threads) <= own.inter_op_parallelism_threads:
        session.close()
        raise EnforcerError(
            "all sessions of this process compute in the same threads: call "
            "tfwave.colocate.limit_memory(..., own_threads=True) before TensorFlow is imported"
        )
    _LOWERED.add(session)
    return session


def is_lowered(session: Any) -> bool:
    """Is it from `background_session`?"""
    return session in _LOWERED


def _lowered_threads() -> set[int]:
    found = set[int]()
    for thread in Path("/proc/self/task").iterdir():
        try:
            if os.sched_getscheduler(int(thread.name)) == os.SCHED_IDLE:
                found.add(int(thread.name))
        except ProcessLookupError:
            continue
    return found


def _made_lowered(make: Callable[[], Any]) -> tuple[Any, int]:
    """Threads have the policy of the one that starts them; so that is a thread which is lowered, and then ends."""
    made: list[Any] = []
    failed: list[Exception] = []

    def run() -> None:
        try:
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
            made.append(make())
        except Exception as error:  # of `make`: any
            failed.append(error)

    thread = threading.Thread(target=run, name="tfwave-lowered")
    thread.start()
    thread.join()
    for error in failed:
        if isinstance(error, OSError):
            raise EnforcerError(f"no thread can be made to go behind all others here ({error})") from error
        raise error
    assert thread.native_id is not None
    return made[0], thread.native_id
