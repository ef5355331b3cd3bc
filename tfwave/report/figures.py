"""Figures of a measured run, as TicTac's evaluation counts: step times, stragglers and efficiency."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tfwave.report.iterations import Iteration


@dataclass(frozen=True)
class StepFigures:
    """Over all steps of one mode. Times in seconds; a step's makespan is its slowest worker's time.

    As in TicTac section 6, `straggler` and `efficiency` are the maximum over the steps; their medians stand beside.

    Attributes:
        steps: how many were timed.
        median_seconds: of a makespan; `stdev_seconds` is its standard deviation.
        straggler: how long the first worker waited for the last, as a share of the step; 0 for one worker.
        traced: of how many steps and workers a trace tells the own times of the step.
        efficiency: E of these, each by its own times (`Iteration`); `nan` without one.
        speedup: the median of their S, what the best order could gain on the worst.
    """

    steps: int
    median_seconds: float
    stdev_seconds: float
    straggler: float
    straggler_median: float
    traced: int
    efficiency: float
    efficiency_median: float
    speedup: float


def step_figures(steps: Sequence[Sequence[float]], traced: Sequence[Iteration]) -> StepFigures:
    """Sum up `steps`: for each step the seconds of each worker; and what was traced in the same mode.

    Raises:
        ValueError: no step.
    """
    if not steps:
        raise ValueError("there are no steps to sum up")
    makespans = [max(workers) for workers in steps]
    stragglers = [straggler(workers) for workers in steps]
    efficiencies = [iteration.efficiency for iteration in traced]
    return StepFigures(
        steps=len(steps),
        median_seconds=statistics.median(makespans),
        stdev_seconds=statistics.stdev(makespans) if len(makespans) > 1 else 0.0,
        straggler=max(stragglers),
        straggler_median=statistics.median(stragglers),
        traced=len(traced),
        efficiency=max(efficiencies, default=math.nan),
        efficiency_median=median_of(efficiencies),
        speedup=median_of([iteration.bounds.speedup for iteration in traced]),
    )


def straggler(seconds: Iterable[float]) -> float:
    """How long the first worker of a step waited for the last, as a share of the last one's time (section 6.3)."""
    own = sorted(seconds)
    return (own[-1] - own[0]) / own[-1]


def median_of(values: Sequence[float]) -> float:
    """`nan` without any."""
    return statistics.median(values) if values else math.nan
