"""When a background runs and when it is paused, from how long the foreground's steps take."""

import math
import statistics
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass

from tfwave.errors import PlanError

FIRST_STEPS = 8
"""They are traced and warm up."""
SETTLE_STEPS = 2
"""What a step takes as the background stops or goes on is neither."""
PAUSED_STEPS = 8
JUDGED_STEPS = 8
RUNNING_STEPS = 152
"""So a background that disturbs nobody loses a twentieth of its time to the measuring."""
LEAST_HELD_STEPS, MOST_HELD_STEPS = 80, 1280
IDLE_SECONDS = 2.0
"""Who has made no step for so long holds no background until it makes one."""
_RECENT_STEPS = 40
_CERTAIN = 2.0
"""Standard deviations: of 40 judgements of a background that slows just as much as it may, one holds it."""


@dataclass
class Steps:
    """Of a foreground: how many are under way, and when the last one ended, by `time.monotonic`."""

    under_way: int = 0
    ended: float = -math.inf

    def is_active(self, now: float) -> bool:
        """Does it make steps? One that is idle holds no background."""
        return self.under_way > 0 or now - self.ended < IDLE_SECONDS


class Pacing:
    """The foreground's steps, one after the other, and what follows for its background.

    1. It is paused for a few steps, which tell what one takes alone, and then runs for many, again and again.
    2. As it runs, the last steps with it are held against the last ones without, every few steps. Where they surely
       take more than `slowdown_at_most` times as long, it is held: paused for longer, twice as long each time that
       this happens again at once.

    Attributes:
        runs: whether the background should run.
        held: how often it was held.

    Raises:
        PlanError: a limit that is not above 1.
    """

    def __init__(self, slowdown_at_most: float | None) -> None:
        """It begins with a pause; None: any slowdown will do."""
        if slowdown_at_most is not None and not 1 < slowdown_at_most < math.inf:
            raise PlanError(
                f"a slowdown_at_most of {slowdown_at_most} is no limit: give more than 1, as 1.05"
            )
        self.runs = False
        self.held = 0
        self._at_most = slowdown_at_most
        self._left = PAUSED_STEPS
        self._settling = FIRST_STEPS
        self._hold_steps = LEAST_HELD_STEPS
        self._with: deque[float] = deque(maxlen=_RECENT_STEPS)
        self._without: deque[float] = deque(maxlen=_RECENT_STEPS)
        self._slowdowns: list[float] = []

    def note(self, seconds: float) -> None:
        """A step of the foreground has taken so long."""
        if self._settling:
            self._settling -= 1
            return
        self._left -= 1
        (self._with if self.runs else self._without).append(seconds)
        if not self.runs:
            if not self._left:
                self._end_pause()
        elif self._left % JUDGED_STEPS == 0 and self._is_over():
            self._hold()
        elif not self._left:
            self._hold_steps = LEAST_HELD_STEPS
            self._turn(False, PAUSED_STEPS)

    @property
    def slowdown(self) -> float | None:
        """How many times as long a step takes while the background runs: the median so far; None: too few steps."""
        now = [self._now()] if len(self._with) >= JUDGED_STEPS else []
        return statistics.median([*self._slowdowns, *now]) if self._slowdowns or now else None

    def _is_over(self) -> bool:
        return self._at_most is not None and is_over(self._with, self._without, self._at_most)

    def _hold(self) -> None:
        self.held += 1
        self._turn(False, self._hold_steps)
        self._hold_steps = min(2 * self._hold_steps, MOST_HELD_STEPS)

    def _end_pause(self) -> None:
        """The steps without it before and behind those with it have been timed."""
        if self._with:
            self._slowdowns.append(self._now())
            self._with.clear()
        self._turn(True, RUNNING_STEPS)

    def _turn(self, runs: bool, steps: int) -> None:
        self.runs, self._left, self._settling = runs, steps, SETTLE_STEPS

    def _now(self) -> float:
        return statistics.median(self._with) / max(statistics.median(self._without), 1e-9)


def is_over(slowed: Collection[float], alone: Collection[float], at_most: float) -> bool:
    """Do steps surely take more than `at_most` times as long as others?

    By ranks (Mann and Whitney): a few long ones, as of an evaluation, decide nothing.
    """
    pairs = len(slowed) * len(alone)
    allowed = sorted(at_most * seconds for seconds in alone)
    over = sum((bisect_left(allowed, seconds) + bisect_right(allowed, seconds)) / 2 for seconds in slowed)
    deviation = math.sqrt(pairs * (len(slowed) + len(alone) + 1) / 12)
    return over - pairs / 2 > _CERTAIN * deviation
