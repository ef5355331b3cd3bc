"""Where the bytes of a step lie."""

from collections.abc import Sequence
from typing import Any

from tfwave.memory.pool.compared import PlacingFigures
from tfwave.memory.pool.lives import Life
from tfwave.memory.pool.placement import place_offline
from tfwave.report.drawn.figure import new_figure
from tfwave.sizes import MIB


def placed_figure(lives: Sequence[Life], figures: Sequence[PlacingFigures]) -> Any:
    """Where bytes lie by the offline placement, each over its life, and the pool that each placing needs.

    Raises:
        EnvironmentUnsupported: matplotlib is not installed.
    """
    figure = new_figure()
    axes = figure.subplots()
    for number, (life, (start, end)) in enumerate(zip(lives, place_offline(lives).spans, strict=True)):
        spans = [(life.born, life.dies - life.born)]
        where = (start / MIB, (end - start) / MIB)
        axes.broken_barh(spans, where, facecolor=f"C{number % 10}", edgecolor="white", linewidth=0.2)
    for each in figures:
        height = each.pool_bytes / MIB
        axes.axhline(height, linestyle=":", color="gray")
        axes.annotate(each.placing, (0, height), fontsize=7)
    axes.set(
        xlabel="moments at which an op begins or ends", ylabel="MiB", title="offline placement of a step"
    )
    return figure
