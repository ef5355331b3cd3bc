"""What a scheduled training did since one last looked."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tfwave.distribute.judge import Kept
from tfwave.order.bounds import Bounds
from tfwave.plan.plan import Plan
from tfwave.report.figures import median_of, straggler


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
        efficiency: E of TicTac section 3.2 of that function, the most of a step, as section 6 reports it. By the
            times of the traced steps that the plan was made of: no other step knows its own. So what the machine
            does besides counts against it, down to below 0; and ops that are faster now than when they were traced
            count for it, up to above 1.
        efficiency_median: the same of the median step.
        inversions: share of the pairs of transfers that were handed off out of order, where a counter orders them;
            see `Conformance`.
        exact_share: of the steps that a plan held to their end, the share that kept it: a counter's order exactly,
            a priority without a hand-off before one that was ready and more urgent.
        planned_share: of the transfers that the plan names for these steps, the share that was handed off under it.
            The others do not exist (Grappler merged them), or have other names, and went unordered.
        released: steps that were let go: by a deadline, a new plan, an abort or the off switch.
        straggler: (slowest - fastest worker) / slowest of an iteration, the most of all (TicTac section 6.3); an
            iteration is a step of each worker, each one's first, second and so on.
        straggler_median: of the iterations.
        seconds: of each step of the function that took most of the time, in no order.
    """

    steps: int
    step_seconds: float
    efficiency: float
    efficiency_median: float
    inversions: float
    exact_share: float
    planned_share: float
    released: int
    straggler: float
    straggler_median: float
    seconds: tuple[float, ...] = ()

    def logs(self) -> dict[str, float]:
        """As Keras callbacks log them."""
        return {
            "tfwave_step_seconds": self.step_seconds,
            "tfwave_efficiency": self.efficiency,
            "tfwave_efficiency_median": self.efficiency_median,
            "tfwave_inversions": self.inversions,
            "tfwave_exact_share": self.exact_share,
            "tfwave_planned_share": self.planned_share,
            "tfwave_released": float(self.released),
            "tfwave_straggler": self.straggler,
            "tfwave_straggler_median": self.straggler_median,
        }


def figures_of(steps: Iterable[FunctionStep], kept: Kept, plans: Mapping[str, Plan]) -> Figures:
    """Sum up a window."""
    by_function: dict[str, list[FunctionStep]] = defaultdict(list)
    for step in steps:
        by_function[step.function].append(step)
    busiest = max(by_function, key=lambda name: math.fsum(s.seconds for s in by_function[name]), default="")
    own = by_function[busiest]
    seconds = [s.seconds for s in own]
    efficiencies = _efficiencies(plans.get(busiest), seconds)
    stragglers = [straggler(iteration) for iteration in _iterations(own)]
    return Figures(
        steps=sum(map(len, by_function.values())),
        step_seconds=median_of(seconds),
        efficiency=max(efficiencies, default=math.nan),
        efficiency_median=median_of(efficiencies),
        inversions=kept.inversion_share,
        exact_share=_share(kept.exact_steps, kept.steps),
        planned_share=_share(kept.hand_offs, kept.planned),
        released=kept.released,
        straggler=max(stragglers, default=math.nan),
        straggler_median=median_of(stragglers),
        seconds=tuple(seconds),
    )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else math.nan


def _efficiencies(plan: Plan | None, seconds: Iterable[float]) -> list[float]:
    if plan is None:
        return []
    bounds = Bounds(plan.predicted.upper_seconds, plan.predicted.lower_seconds)
    return [bounds.efficiency(each) for each in seconds]


def _iterations(steps: Iterable[FunctionStep]) -> Iterator[tuple[float, ...]]:
    """Seconds of each worker's first step, of each one's second, and so on, as far as all workers have come."""
    by_worker: dict[int, list[float]] = defaultdict(list)
    for step in steps:
        by_worker[step.worker].append(step.seconds)
    return zip(*by_worker.values(), strict=False)
