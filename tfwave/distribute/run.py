"""One run of a schedule: the thread that takes each function from its first step to its order."""

import atexit
import logging
import threading
import time
from collections import deque
from contextlib import ExitStack
from typing import Any
from weakref import WeakSet, ref

from tfwave.capture.function import FunctionGraph, function_name
from tfwave.distribute.drafter import LEAST_PULLS, Draft, Drafter
from tfwave.distribute.enforcement import Enforcement
from tfwave.distribute.figures import Figures, FunctionStep, figures_of
from tfwave.distribute.progress import Progress
from tfwave.distribute.scheduled_function import ScheduledFunction
from tfwave.distribute.servers import Servers
from tfwave.distribute.settings import Settings
from tfwave.errors import EnforcerError, TfwaveError
from tfwave.plan.plan import Plan
from tfwave.runtime.coordinator import StepRun, watched
from tfwave.runtime.events import Events
from tfwave.runtime.job_devices import JobDevices

_TICK_SECONDS = 0.1
_STOP_SECONDS = 30.0
_RECOVERY_SECONDS = 10.0
_WINDOW_STEPS = 100_000
"""Figures are taken from the last so many steps, if nobody asks for long."""

_log = logging.getLogger("tfwave")
_RUNS: "WeakSet[ScheduleRun]" = WeakSet()
"""Those that began."""


class ScheduleRun:
    """From `begin` to `end`, or to the end of its coordinator, which is not kept for it.

    Its thread alone moves functions on; any may ask how far they are.
    """

    def __init__(self, servers: Servers, job: JobDevices, settings: Settings, events: Events | None) -> None:
        """For the workers of a job, behind these servers."""
        self.settings = settings
        self._servers = servers
        self._drafter = Drafter(servers, settings.policy, job)
        self._enforcement = Enforcement(servers, settings.report_dir, events)
        self._functions: dict[str, ScheduledFunction] = {}
        self._fresh: deque[Any] = deque()
        self._finished: deque[StepRun] = deque()
        self._window: deque[FunctionStep] = deque(maxlen=_WINDOW_STEPS)
        self._lock = threading.Lock()  # of the window, and of what is finished
        self._stopping = threading.Event()
        self._undo = ExitStack()
        self._coordinator: ref[Any] | None = None
        self._thread = threading.Thread(target=self._work, name="tfwave-schedule", daemon=True)

    def begin(self, coordinator: Any) -> None:
        """Watch a coordinator.

        Raises:
            EnvironmentUnsupported: it cannot be.
        """
        self._coordinator = ref(coordinator)
        self._undo.enter_context(watched(coordinator, self))
        self._thread.start()
        _RUNS.add(self)

    def end(self) -> None:
        """Watch no more, and have the servers forget all plans."""
        self._undo.close()
        self._stopping.set()
        self._thread.join(_STOP_SECONDS)
        if self.events is not None:
            self.events.close()

    def leave(self) -> None:
        """Work no more, as the program ends: servers forget plans by themselves."""
        self._stopping.set()
        self._thread.join(_STOP_SECONDS)

    def on_function(self, concrete: Any) -> None:
        """See `Watcher`; so are the next two."""
        self._fresh.append(concrete)

    def on_step(self, step: StepRun) -> None:
        self._finished.append(step)

    def on_recovery(self, worker: int) -> None:
        end = time.monotonic() + _RECOVERY_SECONDS
        while True:
            try:
                return self._servers.announce([worker])
            except EnforcerError as err:
                if time.monotonic() > end:
                    return _log.warning("tfwave: worker %d is back, but stays unordered: %s", worker, err)
                time.sleep(_TICK_SECONDS)

    @property
    def plans(self) -> dict[str, Plan]:
        """Those in force, by function."""
        return dict(self._enforcement.plans)

    @property
    def events(self) -> Events | None:
        """For TensorBoard, if they are wanted."""
        return self._enforcement.events

    def phases(self) -> dict[str, str]:
        """How far each function has come."""
        return {name: function.progress.phase.value for name, function in dict(self._functions).items()}

    def advised_steps(self, graph: Any) -> int | None:
        """How many steps a call should make of the function that was traced into a graph; None: not known yet."""
        functions = list(self._functions.values())
        return next((function.advised_steps for function in functions if function.graph() is graph), None)

    def figures(self) -> Figures:
        """What happened since the last call."""
        with self._lock:
            self._count_steps()
            window = list(self._window)
            self._window.clear()
        return figures_of(window, self._enforcement.kept(), self.plans)

    @property
    def _is_watched(self) -> bool:
        """Whether there still is what schedules: a program may make a strategy, and then another one."""
        return self._coordinator is not None and self._coordinator() is not None

    def _work(self) -> None:
        try:
            while not self._stopping.wait(_TICK_SECONDS) and self._is_watched:
                self._tick()
        except Exception as err:
            if _program_runs():
                known = isinstance(err, TfwaveError)
                _log.warning("tfwave: training goes on unordered: %s", err, exc_info=not known)
                self._undo.close()
        if _program_runs():
            self._restore()

    def _restore(self) -> None:
        for undo in [*(function.stop for function in self._functions.values()), self._enforcement.lift]:
            try:
                undo()
            except TfwaveError as err:
                _log.warning("tfwave: a server could not be told that the schedule has ended: %s", err)

    def _tick(self) -> None:
        while self._fresh:
            self._meet(self._fresh.popleft())
        with self._lock:
            self._count_steps()
        for function in self._functions.values():
            function.advance(may_trace=self._traced() is None)
        self._enforcement.watch()

    def _meet(self, concrete: Any) -> None:
        """Get to know a function: what pulls next to nothing is left alone."""
        try:
            cut = self._drafter.cut(concrete)
        except TfwaveError as err:
            _log.warning("tfwave: the transfers of %s stay unordered: %s", function_name(concrete), err)
            return
        if len(cut.pulls) >= LEAST_PULLS:
            progress = Progress(len(self._drafter.job.workers), self.settings.trace_steps)
            self._functions[cut.name] = ScheduledFunction(
                ref(concrete.graph), cut, progress, self._drafter, self._enforcement, self._known(cut)
            )

    def _known(self, cut: FunctionGraph) -> Draft | None:
        """What is planned already, if it is this function's."""
        plan = self.settings.plan
        if plan is None:
            return None
        reason = self._drafter.mismatch(plan, cut)
        if reason is None:
            return Draft(plan, None)
        _log.warning("tfwave: %s is traced, as the plan does not fit it: %s", cut.name, reason)
        return None

    def _count_steps(self) -> None:
        """Steps that run beside the trace of another function tell nothing: it slows them down."""
        while self._finished:
            step = self._finished.popleft()
            function = self._functions.get(function_name(step.concrete))
            if function is not None:
                self._window.append(FunctionStep(function.name, step.worker, step.seconds))
                traced = self._traced()
                if traced is None or traced is function:
                    function.count(step)
                else:
                    traced.count_beside()

    def _traced(self) -> ScheduledFunction | None:
        """The function that is traced: one at a time is."""
        return next((function for function in list(self._functions.values()) if function.is_traced), None)


def _program_runs() -> bool:
    """Once its main thread has ended no pool takes work any more, and nobody would read a warning."""
    return threading.main_thread().is_alive()


@atexit.register
def _leave_runs() -> None:
    """Python cuts threads off as it ends: in TensorFlow, as where it writes a graph, that is an abort."""
    for run in list(_RUNS):
        run.leave()
