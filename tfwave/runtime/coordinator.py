"""What a `ClusterCoordinator` schedules, and how long it takes: private API of TensorFlow, touched here only."""

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol
from weakref import WeakSet

from tfwave.errors import EnvironmentUnsupported
from tfwave.runtime.native import tensorflow_version
from tfwave.runtime.replaced import Method, replace


@dataclass(frozen=True)
class StepRun:
    """One scheduled call of a traced function that a worker finished: dispatch to result, as the chief sees it.

    `begin` is of `time.perf_counter`.
    """

    worker: int
    concrete: Any
    begin: float
    seconds: float


class Watcher(Protocol):
    """What wants to know. Must be quick, thread-safe, and must not raise."""

    def on_function(self, concrete: Any) -> None:
        """A trace is scheduled for the first time; it has not run yet. In the thread that schedules."""
        ...

    def on_step(self, step: StepRun) -> None:
        """A call is finished. In the worker's thread of the coordinator."""
        ...

    def on_recovery(self, worker: int) -> None:
        """A worker is back after a failure; it has run nothing yet. In its thread."""
        ...


def coordinator_of(strategy: Any) -> Any:
    """The one `ClusterCoordinator` of a strategy: TensorFlow makes no second one."""
    return import_module("tensorflow").distribute.coordinator.ClusterCoordinator(strategy)


def watched(coordinator: Any, watcher: Watcher) -> ExitStack:
    """Tell `watcher` what a coordinator does, until the stack is closed, which does not keep the coordinator alive.

    Raises:
        EnvironmentUnsupported: this TensorFlow's coordinator is made otherwise.
    """
    try:
        cluster = coordinator._cluster
        queue, workers = cluster.closure_queue, list(cluster.workers)
        with ExitStack() as undo:
            finished = threading.local()
            replace(undo, queue, "put", lambda put: _put(put, watcher))
            replace(undo, queue, "mark_finished", lambda mark: _mark(mark, finished))
            for worker in workers:
                index = worker.worker_index
                replace(undo, worker, "_process_closure", _processed(index, watcher, finished))
                replace(undo, worker, "_on_worker_recovery", _recovered(index, watcher))
            return undo.pop_all()
    except AttributeError as err:
        raise EnvironmentUnsupported(
            f"the ClusterCoordinator of TensorFlow {tensorflow_version()} cannot be watched ({err}): "
            "schedule without tfwave.distribute, with a captured plan and tfwave.ControlClient"
        ) from err


def _put(put: Method, watcher: Watcher) -> Method:
    seen: WeakSet[Any] = WeakSet()

    def put_and_tell(closure: Any, *args: Any, **kwargs: Any) -> Any:
        concrete = _concrete(closure)
        if concrete is not None and concrete not in seen:
            seen.add(concrete)
            watcher.on_function(concrete)
        return put(closure, *args, **kwargs)

    return put_and_tell


def _mark(mark: Method, finished: threading.local) -> Method:
    def mark_and_note() -> Any:
        finished.at = time.perf_counter()
        return mark()

    return mark_and_note


def _processed(worker: int, watcher: Watcher, finished: threading.local) -> Callable[[Method], Method]:
    def make(process: Method) -> Method:
        def process_and_tell(closure: Any) -> Any:
            finished.at = None
            begin = time.perf_counter()
            result = process(closure)
            concrete = _concrete(closure)
            if finished.at is not None and concrete is not None:
                watcher.on_step(StepRun(worker, concrete, begin, finished.at - begin))
            return result

        return process_and_tell

    return make


def _recovered(worker: int, watcher: Watcher) -> Callable[[Method], Method]:
    def make(recover: Method) -> Method:
        def tell_and_recover() -> Any:
            watcher.on_recovery(worker)
            return recover()

        return tell_and_recover

    return make


def _concrete(closure: Any) -> Any:
    """The trace that a closure calls; None for a plain Python function."""
    return getattr(closure, "_concrete_function", None)
