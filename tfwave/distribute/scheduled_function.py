"""One function of a schedule, on its way from its first step to its order."""

import logging
import threading
import time
from dataclasses import dataclass, field
from typing import Any
from weakref import ref

from tfwave.capture.function import FunctionGraph
from tfwave.distribute.drafter import Draft, Drafter
from tfwave.distribute.enforcement import Enforcement
from tfwave.distribute.progress import JUDGED_STEPS, Phase, Progress
from tfwave.errors import EnforcerError, TfwaveError
from tfwave.runtime.coordinator import StepRun

_TRACE_SECONDS = 30.0
"""A trace ends after this time, however few steps the function ran in it: others wait for theirs."""
_MOST_TRACES = 3
"""A function of whose traces so many told nothing stays unordered."""
_PAUSE_SECONDS = 5.0
"""After a trace that could not begin the next one waits so long, and twice as long each time."""
_LONGEST_PAUSE_SECONDS = 300.0
_MOST_LOSSES = 3
"""An order is taken out when so many judgements went against it: machines have moods."""
_EXACT_SHARE = 0.5
"""Where fewer of the judged steps than this share keep the order, it counts as not enforceable."""

_log = logging.getLogger("tfwave")


@dataclass(eq=False)
class ScheduledFunction:
    """All that is known of one trace of a function. `graph` is what it was traced into, as long as that is used.

    The schedule's thread alone moves it on; steps are counted, and phases read, by any.
    """

    graph: "ref[Any]"
    cut: FunctionGraph
    progress: Progress
    drafter: Drafter
    enforcement: Enforcement
    draft: Draft | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)  # of progress
    _pause: float = 0.0
    _next_trace: float = 0.0

    @property
    def name(self) -> str:
        """TensorFlow's, of this trace."""
        return self.cut.name

    @property
    def is_traced(self) -> bool:
        """Whether workers note its steps now."""
        return self.progress.phase is Phase.TRACING

    @property
    def advised_steps(self) -> int | None:
        """How many a call should make; None: not known yet."""
        return self.draft.steps if self.draft else None

    def count_beside(self) -> None:
        """A step of another function is finished."""
        with self._lock:
            self.progress.step_beside()

    def count(self, step: StepRun) -> None:
        """A step of it is finished."""
        with self._lock:
            self.progress.step(step.begin, step.seconds)

    def advance(self, may_trace: bool) -> None:
        """Move on, if it is time.

        1. Measured, with a draft: it is ordered.
        2. Measured, without one: it is traced, if no other function is, and all workers are there.
        3. Traced: it is planned, and ordered.
        4. Ordered for long enough: its order is settled, measured again, or given up.

        Raises:
            EnforcerError: a parameter server does not answer.
        """
        progress = self.progress
        if progress.measured and self.draft is not None:  # 1
            self._order(self.draft)
        elif progress.measured and may_trace:  # 2
            self._trace()
        elif progress.traced or progress.seconds_in(Phase.TRACING, time.perf_counter()) > _TRACE_SECONDS:  # 3
            self._plan()
        elif progress.due:  # 4
            self._settle()

    def stop(self) -> None:
        """Move on no more. What is in force stays: see `Enforcement.lift`.

        Raises:
            EnforcerError: a worker that traced it does not answer.
        """
        was_traced = self.is_traced
        self._enter(Phase.OFF)
        if was_traced:
            self.drafter.stop()

    def _trace(self) -> None:
        if time.perf_counter() < self._next_trace:
            return
        try:
            self.drafter.start()
        except EnforcerError as err:
            self._wait(err)
        else:
            self._enter(Phase.TRACING)

    def _wait(self, err: TfwaveError) -> None:
        """A worker may be gone for a while, or traced by its user; or the function ran no step just then."""
        if not self._pause:
            _log.warning("tfwave: the transfers of %s stay unordered for now: %s", self.name, err)
        self._pause = min(max(2 * self._pause, _PAUSE_SECONDS), _LONGEST_PAUSE_SECONDS)
        self._next_trace = time.perf_counter() + self._pause
        self._enter(Phase.MEASURING)

    def _plan(self) -> None:
        has_run = self.progress.has_run
        try:
            self.draft = self.drafter.draft(self.cut)
        except TfwaveError as err:
            (self._try_again if has_run else self._wait)(err)
        else:
            self._pause = 0.0
            self._order(self.draft)

    def _try_again(self, err: TfwaveError) -> None:
        """A worker may have gone, or have seen no step."""
        self.progress.failures += 1
        if self.progress.failures < _MOST_TRACES:
            self._enter(Phase.MEASURING)
            return
        _log.warning("tfwave: the transfers of %s stay unordered: %s", self.name, err)
        self._enter(Phase.OFF)

    def _order(self, draft: Draft) -> None:
        self.enforcement.put(self.name, draft.plan, draft.pictures)
        self._enter(Phase.ORDERED)

    def _settle(self) -> None:
        """Is the order kept, and does it pay? If not, it gets another try against a new measurement."""
        progress, judge = self.progress, self.enforcement.judge
        if judge.steps(self.name) < JUDGED_STEPS and not progress.overdue:
            return  # too few hand-offs have been read; the first step may have begun before the plan came
        share = judge.exact_share(self.name)
        progress.losses += progress.loses
        if share < _EXACT_SHARE:
            self._give_up(f"only {share:.0%} of its steps kept it (are all servers hooked?)")
        elif not progress.loses:
            progress.settled = True
        elif progress.losses < _MOST_LOSSES:
            self._without(Phase.MEASURING)
        else:
            self._give_up(f"steps take {1 / progress.gain:.2f} x the time that they take without")

    def _give_up(self, why: str) -> None:
        _log.warning("tfwave: the order of %s is taken back: %s", self.name, why)
        self._without(Phase.OFF)

    def _without(self, phase: Phase) -> None:
        self.enforcement.take_back(self.name)
        self._enter(phase)

    def _enter(self, phase: Phase) -> None:
        with self._lock:
            self.progress.enter(phase, time.perf_counter())
