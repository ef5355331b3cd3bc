"""What a scheduled training did since one last looked."""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tfwave.distribute.judge import Kept
from tfwave.order.bounds import Bounds
from tfwave.plan.plan import Plan


class FunctionStep(NamedTuple):
    """One finished step: the function's name, the worker's index and seconds from dispatch to result."""

    function: str
    worker: int
    seconds: float


@dataclass(frozen=True)
class Figures:
    """Over the steps of one window; `nan` where nothing was measured.

    Attributes:
        steps: how many calls finished, on all workers and of all functions; a call is a step, whatever it makes.
        step_seconds: the median of the function that took most of the time.
        efficiency: E of TicTac section 3.2 of that function, by the plan's bounds.
        inversions: share of the pairs of transfers that were handed off out of order, where a counter orders them;
            see `Conformance`.
        exact_share: of the steps that a plan held to their end, the share that kept it: a counter's order exactly,
            a priority without a hand-off before one that was ready and more urgent.
        planned_share: of the transfers that the plan names for these steps, the share that was handed off under it.
            The others do not exist (Grappler merged them), or have other names, and went unordered.
        released: steps that were let go: by a deadline, a new plan, an abort or the off switch.
        straggler: (slowest - fastest worker) / slowest, by their median steps.
    """

    steps: int
    step_seconds: float
    efficiency: float
    inversions: float
    exact_share: float
    planned_share: float
    released: int
    straggler: float

    def logs(self) -> dict[str, float]:
        """As Keras callbacks log them."""
        return {
            "tfwave_step_seconds": self.step_seconds,
            "tfwave_efficiency": self.efficiency,
            "tfwave_inversions": self.inversions,
            "tfwave_exact_share": self.exact_share,
            "tfwave_planned_share": self.planned_share,
            "tfwave_released": float(self.released),
            "tfwave_straggler": self.straggler,
        }


def figures_of(steps: Iterable[FunctionStep], kept: Kept, plans: Mapping[str, Plan]) -> Figures:
    """Sum up a window."""
    by_function: dict[str, list[FunctionStep]] = defaultdict(list)
    for step in steps:
        by_function[step.function].append(step)
    busiest = max(by_function, key=lambda name: math.fsum(s.seconds for s in by_function[name]), default="")
    own = by_function[busiest]
    median = statistics.median(s.seconds for s in own) if own else math.nan
    return Figures(
        steps=sum(map(len, by_function.values())),
        step_seconds=median,
        efficiency=_efficiency(plans.get(busiest), median),
        inversions=kept.conforming.inversion_share,
        exact_share=_share(kept.conforming.exact_steps, kept.conforming.steps),
        planned_share=_share(kept.conforming.hand_offs, kept.planned),
        released=kept.released,
        straggler=_straggler(own),
    )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else math.nan


def _efficiency(plan: Plan | None, seconds: float) -> float:
    if plan is None:
        return math.nan
    return Bounds(plan.predicted.upper_seconds, plan.predicted.lower_seconds).efficiency(seconds)


def _straggler(steps: Iterable[FunctionStep]) -> float:
    by_worker: dict[int, list[float]] = defaultdict(list)
    for step in steps:
        by_worker[step.worker].append(step.seconds)
    medians = [statistics.median(seconds) for seconds in by_worker.values()]
    return (max(medians) - min(medians)) / max(medians) if medians else math.nan
