"""What a step holds, plain and made to fit."""

from typing import Any

from tfwave.graph.names import short_device
from tfwave.offload.curve import MemoryCurve, fitted_curve, plain_curve
from tfwave.offload.layout import Bytes
from tfwave.offload.question import Question
from tfwave.report.drawn.figure import new_figure
from tfwave.sizes import MIB, in_words


def fit_figure(asked: Question) -> Any:
    """What a step holds, op after op: with all kept and fitted, what is away meanwhile, and the limit.

    Of a step that does not fit, what it holds with all kept.

    Raises:
        EnvironmentUnsupported: matplotlib is not installed.
    """
    figure = new_figure()
    axes = figure.subplots()
    if asked.fit is not None:
        _draw_fitted(axes, fitted_curve(asked.fit.forecast))
    plain = plain_curve(asked.captured.step)
    label = f"all kept, peak {in_words(int(plain.max(initial=0)))}"
    _draw_line(axes, plain, color="black", linewidth=0.8, label=label)
    axes.axhline(asked.limit / MIB, linestyle="--", color="red", label=f"limit {in_words(asked.limit)}")
    device = short_device(asked.captured.step.device)
    title = f"what a step holds on {device}, op after op"
    axes.set(xlabel="ops that have run", ylabel="MiB", title=title, xlim=(0, len(plain)), ylim=(0, None))
    figure.legend(loc="outside lower center", ncols=3)
    return figure


def _draw_fitted(axes: Any, curve: MemoryCurve) -> None:
    """What is held, and above it what is away, the one on the other."""
    below = curve.held
    _draw_band(axes, below * 0, below, color="C0", alpha=0.3)
    for away, colour, label in (
        (curve.offloaded, "C1", "on the host"),
        (curve.recomputed, "C2", "to be made again"),
    ):
        if away.any():
            most = in_words(int(away.max()))
            _draw_band(axes, below, below + away, color=colour, alpha=0.3, label=f"{label}, up to {most}")
            below = below + away
    _draw_line(axes, curve.held, color="C0", label=f"fitted, peak {in_words(int(curve.held.max(initial=0)))}")


def _draw_band(axes: Any, low: Bytes, high: Bytes, **options: Any) -> None:
    axes.fill_between(range(len(low) + 1), _steps(low), _steps(high), step="post", linewidth=0, **options)


def _draw_line(axes: Any, held: Bytes, **options: Any) -> None:
    axes.step(range(len(held) + 1), _steps(held), where="post", **options)


def _steps(held: Bytes) -> list[float]:
    """In MiB; the last value once more, where its op ends."""
    return [each / MIB for each in [*held.tolist(), held[-1]]]
