"""How predicted steps are shown, each with the error of the model."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from tfwave.cli.output import against_captured, bandwidth, console, print_table
from tfwave.whatif.predict import Prediction
from tfwave.whatif.subject import Subject

_TASK = re.compile(r"/job:([^/]+)(?:/replica:\d+)?/task:(\d+)")
_SHORT_TASK = r"\1:\2"
_ASSUMED = {
    "servers": "variables are dealt anew, and edges between those that shared a server stay free",
    "workers": "all are copies of the first, and begin together",
    "batch-scale": "what an op takes whatever the batch is scaled too",
}


def predictions_dict(subject: Subject, found: Sequence[Prediction]) -> dict[str, Any]:
    """For programs; the first prediction is that of the job as captured."""
    error = _error(subject, found[0])
    card = subject.network.card
    return {
        "captured_seconds": subject.captured_seconds,
        "error": error,
        "card": card and {"bytes_per_second": card.bytes_per_second, "relative_error": card.relative_error},
        "configurations": [_row_document(prediction, error) for prediction in found],
    }


def _row_document(found: Prediction, error: float | None) -> dict[str, Any]:
    change = found.change
    return {
        "configuration": change.label,
        "bytes_per_second": change.bandwidth,
        "latency_seconds": change.latency_seconds,
        "servers": change.servers,
        "balanced": change.balanced,
        "workers": change.workers,
        "batch_scale": change.batch_scale,
        "policy": found.policy,
        "unordered_seconds": found.unordered_seconds,
        "unordered_runs": list(found.unordered),
        "ordered_seconds": found.ordered_seconds,
        "gain": found.gain,
        "error": error,
        "link_busy": found.card_share,
        "compute_busy": found.compute_share,
        "bound_seconds": found.bound.seconds,
        "bound": found.bound.name,
        "costs": vars(found.source),
    }


def print_predictions(subject: Subject, found: Sequence[Prediction]) -> None:
    """For people: a row each, then what they rest on; the first is that of the job as captured."""
    error = _error(subject, found[0])
    print_table(
        f"a step in ms, policy {found[-1].policy}; link and compute: how busy the busiest is",
        ["configuration", "unordered", "ordered", "gain", "error", "link", "compute", "bound"],
        [
            (
                one.change.label.replace(", ", "\n"),
                f"{one.unordered_seconds * 1e3:.2f} ±{one.spread:.0%}",
                f"{one.ordered_seconds * 1e3:.2f}",
                f"{one.gain:.1%}",
                "unknown" if error is None else f"±{abs(error):.1%}",
                f"{one.card_share:.0%}",
                f"{one.compute_share:.0%}",
                f"{one.bound.seconds * 1e3:.2f}",
            )
            for one in found
        ],
    )
    for remark in _remarks(subject, found, error):
        console.print(remark, soft_wrap=True)


def _remarks(subject: Subject, found: Sequence[Prediction], error: float | None) -> Iterator[str]:
    source, bound = found[-1].source, found[-1].bound
    detail = f" ({source.detail})" if source.detail else ""
    yield f"costs: ops {source.ops}, transfers {source.transfers}{detail}"
    if (card := subject.network.card) is not None:
        speed = bandwidth(card.bytes_per_second)
        yield f"network cards: {speed} each as captured, fitted, off by {card.relative_error:.1%}"
    for name, what in _ASSUMED.items():
        if any(name in one.change.label for one in found):
            yield f"{name}: an estimate, {what}"
    yield f"bound of the last: {_TASK.sub(_SHORT_TASK, bound.name)}"
    if error is None or subject.captured_seconds is None:
        yield "no step was captured to compare with: how far predictions are off is not known"
    else:
        yield against_captured(subject.captured_seconds, found[0].unordered_seconds)


def _error(subject: Subject, captured: Prediction) -> float | None:
    """By how much the simulated step as captured is off, a share of the captured one; None: not known."""
    if not subject.captured_seconds:
        return None
    return captured.unordered_seconds / subject.captured_seconds - 1
