"""Figures of a measured run: step times, efficiency and stragglers, ordered against unordered."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from tfwave.order.bounds import Bounds


@dataclass(frozen=True)
class StepFigures:
    """Over all steps of one mode. Times in seconds; a step's makespan is its slowest worker's time.

    `straggler` is the median over steps of (slowest - fastest worker) / slowest, 0 for one worker;
    `efficiency` is E of TicTac section 3.2 at the median makespan.
    """

    steps: int
    median_seconds: float
    stdev_seconds: float
    straggler: float
    efficiency: float
    speedup: float


def step_figures(steps: Sequence[Sequence[float]], bounds: Bounds) -> StepFigures:
    """Sum up `steps`: for each step the seconds of each worker.

    Raises:
        ValueError: no step.
    """
    if not steps:
        raise ValueError("there are no steps to sum up")
    makespans = [max(workers) for workers in steps]
    median = statistics.median(makespans)
    return StepFigures(
        steps=len(steps),
        median_seconds=median,
        stdev_seconds=statistics.stdev(makespans) if len(makespans) > 1 else 0.0,
        straggler=statistics.median((max(w) - min(w)) / max(w) for w in steps),
        efficiency=bounds.efficiency(median),
        speedup=bounds.speedup,
    )
