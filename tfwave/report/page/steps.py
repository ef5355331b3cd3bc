"""How long steps took, and what tells it."""

import math
import statistics
from collections.abc import Sequence

from tfwave.graph.names import short_device
from tfwave.report.figures import StepFigures
from tfwave.report.iterations import Iteration, explained
from tfwave.report.page.facts import Section, Table
from tfwave.report.page.given import Given
from tfwave.report.run import MODES
from tfwave.sizes import milliseconds

_FEWEST = 3
"""Traced steps: through two points there is always a line."""


def times_section(given: Given) -> Section | None:
    """The distribution of step times (CDF) by mode; None where none were measured."""
    if given.measured is None:
        return None
    measured = given.measured.step_seconds
    times = {mode: sorted(max(workers) for workers in measured[mode]) for mode in MODES}
    rows = [(mode, *_row(given.figures[mode], times[mode])) for mode in MODES]
    columns = ["mode", "steps", "fastest", "median", "slowest", "std dev", "straggler"]
    return Section(
        "times",
        "How long steps took",
        "Each curve: the share of steps that took at most so long; further left is faster, steeper is steadier.",
        {"modes": [{"mode": mode, "ms": [_ms(s) for s in seconds]} for mode, seconds in times.items()]},
        Table(columns, rows),
    )


def efficiency_section(given: Given) -> Section | None:
    """E of each traced step against its time, and the line through them; None without a traced step."""
    found = {mode: own for mode, own in given.iterations.items() if own}
    if not found:
        return None
    points = [i for own in found.values() for i in own]
    r2, line = explained(points), _line(points)
    told = (
        ""
        if math.isnan(r2) or len(points) < _FEWEST
        else f" E tells {r2:.0%} of how step times vary (R2, {len(points)} traced steps)."
    )
    chart = {
        "modes": [
            {"mode": mode, "points": [[round(i.efficiency, 4), _ms(i.seconds)] for i in own]}
            for mode, own in found.items()
        ],
        "line": line,
    }
    rows = [
        (mode, i.step + 1, short_device(i.device), f"{i.efficiency:.3f}", milliseconds(i.seconds))
        for mode, own in found.items()
        for i in own
    ]
    return Section(
        "efficiency",
        "Efficiency against step time",
        "E is 1 where the busiest resource never waited, 0 where one worked at a time, below 0 if at times none."
        + told,
        chart,
        Table(["mode", "step", "worker", "E", "time"], rows),
    )


def _row(figures: StepFigures, times: Sequence[float]) -> tuple[int | str, ...]:
    seconds = (times[0], figures.median_seconds, times[-1], figures.stdev_seconds)
    return (figures.steps, *map(milliseconds, seconds), f"{figures.straggler_median:.1%}")


def _line(points: Sequence[Iteration]) -> list[list[float]]:
    """Both ends of the regression line, as (E, ms); empty where E does not vary."""
    own = [i.efficiency for i in points]
    try:
        slope, base = statistics.linear_regression(own, [i.seconds for i in points])
    except statistics.StatisticsError:
        return []
    return [[round(e, 4), _ms(base + slope * e)] for e in (min(own), max(own))]


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, 3)
