"""One run of a schedule: each function on its way from its first step to its order."""

import logging
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from typing import Any
from weakref import WeakKeyDictionary

from tfwave.capture.function import FunctionGraph, cut_function, function_name
from tfwave.capture.plan import plan_function
from tfwave.capture.worker_trace import CostedFunction, function_costs
from tfwave.distribute.figures import Figures, FunctionStep, figures_of
from tfwave.distribute.judge import Judge
from tfwave.distribute.progress import JUDGED_STEPS, Phase, Progress
from tfwave.distribute.servers import LEASE_SECONDS, Servers
from tfwave.distribute.settings import Settings
from tfwave.errors import EnforcerError, TfwaveError
from tfwave.plan.plan import Plan
from tfwave.planner.overlap import StepLoad, choose_steps, step_load
from tfwave.runtime.coordinator import StepRun, watched

_TICK_SECONDS = 0.1
_WATCH_SECONDS = 1.0
_WATCH_SHARE = 0.01
"""Of the chief's time, at most, that goes into reading hand-offs."""
_MOST_MISSES = 5
"""In a row, of a server that does not answer while a training runs."""
_STOP_SECONDS = 30.0
_TRACE_SECONDS = 30.0
"""After which a trace ends, however few steps the function ran in it: others wait for theirs."""
_MOST_TRACES = 3
_RECOVERY_SECONDS = 10.0
_MOST_LOSSES = 3
"""Judgements that an order must lose: machines have moods."""
_EXACT_SHARE = 0.5
"""Of the judged steps: where fewer keep the order it counts as not enforceable."""
_WINDOW_STEPS = 100_000
"""What figures are taken from, if nobody asks for long."""

_log = logging.getLogger("tfwave")


class Run:
    """From `begin` to `end`. Its thread alone touches servers, plans and progress, but where a lock is named."""

    def __init__(self, servers: Servers, workers: int, settings: Settings) -> None:
        """For so many workers, behind these servers."""
        self.settings = settings
        self.plans: dict[str, Plan] = {}
        self._servers = servers
        self._workers = workers
        self._devices = [f"/job:worker/replica:0/task:{i}/device:CPU:0" for i in range(workers)]
        self._fresh: deque[Any] = deque()
        self._finished: deque[StepRun] = deque()
        self._functions: dict[str, FunctionGraph] = {}
        self._progress: dict[str, Progress] = {}
        self._drafts: dict[str, Plan] = {}
        self._names: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
        self._steps: dict[str, int] = {}
        self._tracing: str | None = None
        self._next_watch = 0.0
        self._misses = 0
        self._lock = threading.Lock()  # of the window that figures() takes
        self._window: deque[FunctionStep] = deque(maxlen=_WINDOW_STEPS)
        self._judge = Judge()
        self._stopping = threading.Event()
        self._undo = ExitStack()
        self._thread = threading.Thread(target=self._work, name="tfwave-schedule", daemon=True)

    def begin(self, coordinator: Any) -> None:
        """Watch a coordinator.

        Raises:
            EnvironmentUnsupported: it cannot be.
        """
        self._undo.enter_context(watched(coordinator, self))
        self._thread.start()

    def end(self) -> None:
        """Watch no more, and have the servers forget all plans."""
        self._undo.close()
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

    def phases(self) -> dict[str, str]:
        """How far each function has come."""
        return {name: progress.phase.value for name, progress in dict(self._progress).items()}

    def advised_steps(self, graph: Any) -> int | None:
        """How many steps a call should make of the function that was traced into a graph; None: not known yet."""
        return self._steps.get(self._names.get(graph, ""))

    def figures(self) -> Figures:
        """What happened since the last call."""
        with self._lock:
            self._count_steps()
            try:
                self._read_hand_offs()
            except EnforcerError as err:
                _log.warning("tfwave: the figures lack the last hand-offs: %s", err)
            window = list(self._window)
            self._window.clear()
            return figures_of(window, self._judge.take(), self.plans)

    def _work(self) -> None:
        try:
            while not self._stopping.wait(_TICK_SECONDS):
                self._tick()
        except Exception as err:
            known = isinstance(err, TfwaveError)
            _log.warning("tfwave: training goes on unordered: %s", err, exc_info=not known)
            self._undo.close()
        self._restore()

    def _restore(self) -> None:
        with self._lock:
            self.plans = {}
        for progress in self._progress.values():
            self._enter(progress, Phase.OFF)
        try:
            if self._tracing is not None:
                self._servers.stop_trace()
            self._servers.install({})
        except TfwaveError as err:
            _log.warning("tfwave: a server could not be told to forget its plan: %s", err)

    def _tick(self) -> None:
        while self._fresh:
            self._meet(self._fresh.popleft())
        with self._lock:
            self._count_steps()
        for name, progress in self._progress.items():
            self._advance(name, progress)
        if self.plans and time.monotonic() >= self._next_watch:
            self._watch()

    def _meet(self, concrete: Any) -> None:
        """Get to know a function: what pulls nothing is left alone."""
        name = function_name(concrete)
        try:
            function = cut_function(concrete, self._devices[0])
            if function.overlaps:
                _refuse_proxies(self._servers.enforcers())
        except TfwaveError as err:
            _log.warning("tfwave: the transfers of %s stay unordered: %s", name, err)
            return
        if len(function.pulls) > 1:
            self._names[concrete.graph] = name
            self._functions[name] = function
            self._progress[name] = Progress(self._workers, self.settings.trace_steps)

    def _count_steps(self) -> None:
        """Steps that run beside the trace of another function tell nothing: it slows them down."""
        while self._finished:
            step = self._finished.popleft()
            name = function_name(step.concrete)
            if name in self._progress:
                self._window.append(FunctionStep(name, step.worker, step.seconds))
                if self._tracing in {None, name}:
                    self._progress[name].step(step.begin, step.seconds)

    def _advance(self, name: str, progress: Progress) -> None:
        if progress.measured and name in self._drafts:
            self._order(name, progress)
        elif progress.measured and self._tracing is None:
            self._trace(name, progress)
        elif progress.traced or progress.seconds_in(Phase.TRACING, time.perf_counter()) > _TRACE_SECONDS:
            self._plan(name, progress)
        elif progress.due:
            self._settle(name, progress)

    def _trace(self, name: str, progress: Progress) -> None:
        try:
            self._servers.start_trace()
        except EnforcerError as err:
            with suppress(EnforcerError):
                self._servers.stop_trace()  # of those that began
            self._try_again(name, progress, err)
            return
        self._tracing = name
        self._enter(progress, Phase.TRACING)

    def _plan(self, name: str, progress: Progress) -> None:
        self._tracing = None
        try:
            traces = self._servers.stop_trace()
            costed = function_costs(self._functions[name], traces)
            draft = plan_function(costed, self.settings.policy, self._devices)
            steps = None if costed.function.overlaps else choose_steps(_load(costed, len(self._devices)))
        except TfwaveError as err:
            self._try_again(name, progress, err)
            return
        self._drafts[name] = draft
        if steps is not None:
            self._steps[name] = steps
        self._order(name, progress)

    def _try_again(self, name: str, progress: Progress, err: TfwaveError) -> None:
        """A worker may be gone for a while, or traced by its user."""
        progress.failures += 1
        if progress.failures < _MOST_TRACES:
            self._enter(progress, Phase.MEASURING)
            return
        _log.warning("tfwave: the transfers of %s stay unordered: %s", name, err)
        self._enter(progress, Phase.OFF)

    def _order(self, name: str, progress: Progress) -> None:
        self._install({**self.plans, name: self._drafts[name]})
        self._enter(progress, Phase.ORDERED)

    def _settle(self, name: str, progress: Progress) -> None:
        """Is the order kept, and does it pay? If not, it gets another try against a new measurement."""
        if self._judge.steps(name) < JUDGED_STEPS and not progress.overdue:
            return  # too few hand-offs have been read; the first step may have begun before the plan came
        share = self._judge.exact_share(name)
        progress.losses += progress.loses
        if share < _EXACT_SHARE:
            self._give_up(name, f"only {share:.0%} of its steps kept it (are all servers hooked?)")
        elif not progress.loses:
            progress.settled = True
        elif progress.losses < _MOST_LOSSES:
            self._without(name, Phase.MEASURING)
        else:
            self._give_up(name, f"steps take {1 / progress.gain:.2f} x the time that they take without")

    def _give_up(self, name: str, why: str) -> None:
        _log.warning("tfwave: the order of %s is taken back: %s", name, why)
        self._without(name, Phase.OFF)

    def _without(self, name: str, phase: Phase) -> None:
        self._install({other: plan for other, plan in self.plans.items() if other != name})
        self._enter(self._progress[name], phase)

    def _enter(self, progress: Progress, phase: Phase) -> None:
        with self._lock:  # figures() counts steps too
            progress.enter(phase, time.perf_counter())

    def _install(self, plans: dict[str, Plan]) -> None:
        """A server begins its log anew with new plans, so what it holds is read before."""
        with self._lock:
            self._read_hand_offs()
            self._servers.install(plans)
            self._judge.expect(plans)
            self.plans = plans

    def _watch(self) -> None:
        begin = time.monotonic()
        try:
            self._remind()
            with self._lock:
                self._read_hand_offs()
            self._misses = 0
        except EnforcerError:
            self._misses += 1
            if self._misses > _MOST_MISSES:
                raise
        seconds = time.monotonic() - begin
        pause = min(max(_WATCH_SECONDS, seconds / _WATCH_SHARE), LEASE_SECONDS / 10)
        self._next_watch = time.monotonic() + pause

    def _remind(self) -> None:
        forgetful = self._servers.forgetful()
        if forgetful:
            _log.info("tfwave: %s lost its plan, which is installed again", ", ".join(forgetful))
            self._install(self.plans)

    def _read_hand_offs(self) -> None:
        if self.plans:
            self._judge.add(self._servers.hand_offs(), time.monotonic())


def _refuse_proxies(enforcers: Mapping[str, str]) -> None:
    for task, enforcer in enforcers.items():
        if enforcer != "hook":
            raise EnforcerError(
                f"its steps overlap, which needs the hook, and {task} orders by the {enforcer}"
            )


def _load(costed: CostedFunction, workers: int) -> StepLoad:
    function = costed.function
    return step_load(function.view, function.worker, costed.transfers, costed.network, workers)
