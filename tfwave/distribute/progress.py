"""How far the ordering of one function has come. Decides nothing about servers, and knows no TensorFlow."""

import statistics
from dataclasses import dataclass, field
from enum import Enum

WARM_UP_STEPS = 2
"""So many steps of each worker are not timed: TensorFlow instantiates the function in the first."""

JUDGED_STEPS = 20
"""After so many ordered steps of each worker it is judged whether the order pays."""

_MOST_BESIDE = 10
"""A trace holds all that a worker runs: it ends with so many times its own steps of other functions."""

_LOSS = 1.05
"""Less than this is within what machines vary by."""


class Phase(Enum):
    """What the steps of a function are for now."""

    WARMING = "warming up"
    MEASURING = "measured unordered"
    TRACING = "traced"
    ORDERED = "ordered"
    OFF = "unordered"


@dataclass
class Progress:
    """The phase of one function, moved on by its finished steps, those of all workers together.

    A step counts to a phase if it began in it. Times are in seconds, of one clock.
    """

    workers: int
    trace_steps: int
    phase: Phase = Phase.WARMING
    since: float = 0.0
    failures: int = 0
    """So many traces told nothing."""
    losses: int = 0
    """How often the order was judged to make steps slower."""
    settled: bool = False
    """Whether it was judged for good what the order gives."""
    _steps: int = 0
    _beside: int = 0
    _unordered: list[float] = field(default_factory=list[float])
    _ordered: list[float] = field(default_factory=list[float])

    def enter(self, phase: Phase, now: float) -> None:
        """Go on to another phase; a new measurement forgets the one before."""
        self.phase = phase
        self.since = now
        self._steps = 0
        self._beside = 0
        if phase is Phase.MEASURING:
            self._unordered, self._ordered = [], []

    def step(self, begin: float, seconds: float) -> None:
        """A step is finished."""
        if begin < self.since:
            return
        self._steps += 1
        if self.phase is Phase.MEASURING:
            self._unordered.append(seconds)
        elif self.phase is Phase.ORDERED and not self.settled:
            self._ordered.append(seconds)
        elif self.phase is Phase.WARMING and self._steps >= WARM_UP_STEPS * self.workers:
            self.enter(Phase.MEASURING, begin + seconds)

    def step_beside(self) -> None:
        """A step of another function is finished."""
        self._beside += 1

    @property
    def has_run(self) -> bool:
        """Whether a step counts to this phase."""
        return self._steps > 0

    @property
    def measured(self) -> bool:
        """Whether it is known what the steps take unordered."""
        needed = JUDGED_STEPS if self.losses else self.trace_steps
        return self.phase is Phase.MEASURING and self._steps >= needed * self.workers

    @property
    def traced(self) -> bool:
        """Whether enough steps have run since the trace began, or many more of other functions."""
        needed = self.trace_steps * self.workers
        enough = self._steps >= needed or self._beside >= _MOST_BESIDE * needed
        return self.phase is Phase.TRACING and enough

    def seconds_in(self, phase: Phase, now: float) -> float:
        """How long it has been in a phase; 0 if it is in another."""
        return now - self.since if self.phase is phase else 0.0

    @property
    def due(self) -> bool:
        """Whether it is time to judge what the order gives."""
        enough = self._steps >= JUDGED_STEPS * self.workers
        return self.phase is Phase.ORDERED and enough and not self.settled

    @property
    def overdue(self) -> bool:
        """Whether so many ordered steps have run that their hand-offs must have been seen."""
        return self._steps >= 10 * JUDGED_STEPS * self.workers

    @property
    def gain(self) -> float:
        """Median unordered over median ordered step: above 1, the order pays."""
        return statistics.median(self._unordered) / statistics.median(self._ordered)

    @property
    def loses(self) -> bool:
        """Whether ordered steps are slower beyond doubt: their lower quartile than the upper one without, too."""
        fast, slow = sorted(self._ordered), sorted(self._unordered)
        return self.gain < 1 / _LOSS and fast[len(fast) // 4] > slow[3 * len(slow) // 4]
