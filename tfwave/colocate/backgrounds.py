"""The backgrounds among the jobs of a pool: when each makes its steps."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tfwave.colocate.job import Job
from tfwave.colocate.pacing import Pacing, Steps


@dataclass(frozen=True)
class Held:
    """What a background was to the other jobs.

    Attributes:
        slowdown: how many times as long as without it the planned steps took of that job which it slowed most; None
            where there were too few.
        times: how often it was held, as that was more than it may be.
    """

    slowdown: float | None = None
    times: int = 0


@dataclass
class _Background:
    at_most: float | None
    pacings: dict[str, Pacing] = field(default_factory=dict[str, Pacing])
    gone: list[Pacing] = field(default_factory=list[Pacing])

    def runs(self, active: Collection[str]) -> bool:
        return all(pacing.runs for name, pacing in self.pacings.items() if name in active)

    @property
    def held(self) -> Held:
        pacings = [*self.gone, *self.pacings.values()]
        slowdowns = [pacing.slowdown for pacing in pacings if pacing.slowdown is not None]
        return Held(max(slowdowns, default=None), sum(pacing.held for pacing in pacings))


class Backgrounds:
    """Holds them between two of their steps, as `Pacing` says by the steps of each other job that is not idle."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """There are none."""
        self._clock = clock
        self._changed = threading.Condition()
        self._jobs: dict[str, _Background] = {}
        self._steps: defaultdict[str, Steps] = defaultdict(Steps)

    def begin(self, job: Job) -> None:
        """Before its first step."""
        if job.background:
            with self._changed:
                self._jobs[job.name] = _Background(job.slowdown_at_most)

    def note(self, job: Job, seconds: float) -> None:
        """A step of a job has taken so long, with all that it waited.

        It tells nothing of a background that is to be paused and still makes a step, or should run and does not.
        """
        if job.background:
            return
        with self._changed:
            for name, background in self._jobs.items():
                pacing = background.pacings.setdefault(job.name, Pacing(background.at_most))
                if pacing.runs == bool(self._steps[name].under_way):
                    pacing.note(seconds)
            self._changed.notify_all()

    def may_step(self, job: Job, seconds: float) -> bool:
        """Is the job none, or may it make a step? That is waited for so long."""
        background = self._jobs.get(job.name)
        if background is None:
            return True
        with self._changed:
            return self._changed.wait_for(lambda: background.runs(self._active()), seconds)

    @contextmanager
    def step(self, job: Job) -> Generator[None]:
        """Around each step of any job."""
        with self._changed:
            steps = self._steps[job.name]
            steps.under_way += 1
        try:
            yield
        finally:
            with self._changed:
                steps.under_way -= 1
                steps.ended = self._clock()

    def leave(self, job: Job) -> Held:
        """The job has ended; what became of it, if it is a background."""
        with self._changed:
            for background in self._jobs.values():
                if job.name in background.pacings:
                    background.gone.append(background.pacings.pop(job.name))
            self._changed.notify_all()
            self._steps.pop(job.name, None)
            background = self._jobs.pop(job.name, None)
        return background.held if background else Held()

    def _active(self) -> set[str]:
        """The jobs that make steps."""
        now = self._clock()
        return {name for name, steps in self._steps.items() if steps.is_active(now)}
