"""When a reduce goes, and how far its members may run ahead: pure functions of what the coordinator knows."""

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import chain

from tfwave.stragglers.forecast import Terms, choose_terms

PROBE_SECONDS = 0.25
"""After so long without an answer of the probed ones all are probed: those may be stopped or at their end."""
RECENT = 20
"""Steps of each member by which it is told whether there are stragglers."""
OUTLIERS = 0.1
"""The share of these steps, at either end, that does not count: a checkpoint or a trace makes no straggler."""


@dataclass
class Pace:
    """The last steps of each member, in seconds, by which grace and bound are chosen."""

    steps: dict[int, deque[float]] = field(default_factory=dict[int, deque[float]])

    def add(self, member: int, seconds: float) -> None:
        """Note one step."""
        self.steps.setdefault(member, deque(maxlen=RECENT)).append(seconds)

    def forget(self, member: int) -> None:
        """It is gone."""
        self.steps.pop(member, None)

    def terms(self) -> Terms:
        """As `tfwave stragglers` has them; until there are steps, those without stragglers."""
        every = sorted(chain.from_iterable(self.steps.values()))
        cut = int(len(every) * OUTLIERS)
        kept = every[cut : len(every) - cut]
        return choose_terms({"recent": tuple(kept)}) if kept else Terms(0.0, 1, stragglers=False)


def departure(
    ready: Mapping[int, float | None], probed: Collection[int] | None, begin: float, grace: float
) -> float | None:
    """When a reduce goes by what is known; None: when more is known.

    Args:
        ready: of each member that may give something: since when it has a gradient; None: it has none. One at
            least.
        probed: those of which the first lets the reduce go; None: all must have a gradient.
        begin: when the probing began.
        grace: how long the others are waited for then.

    All times are seconds of one clock.
    """
    times = [time for time in ready.values() if time is not None]
    if len(times) == len(ready):
        return max(begin, *times)
    if probed is None or not times:
        return None
    answers = [time for member in probed if (time := ready.get(member)) is not None]
    first = min([max(begin, time) for time in answers] + [max(begin + PROBE_SECONDS, min(times))])
    return first + grace
