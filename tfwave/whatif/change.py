"""What to change about a captured job, and sweeps over several values."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from tfwave.cost.cluster import parse_bandwidth, parse_latency
from tfwave.errors import CostError, TfwaveError
from tfwave.graph.names import parse_number

_MOST = 4096
"""A job has no more servers, and no more workers."""
_MOST_ROWS = 1000


@dataclass(frozen=True)
class Change:
    """None: as captured.

    Attributes:
        label: what is changed, in words.
        bandwidth: of each network card in each direction, bytes/s.
        latency_seconds: from one card to another, beside what a transfer takes anyway.
        servers: to deal the variables to, in turn.
        balanced: deal them as `tfwave balance` would.
        workers: each with a step of its own.
        batch_scale: times as much work in each op of a worker.
    """

    label: str = "as captured"
    bandwidth: float | None = None
    latency_seconds: float = 0.0
    servers: int | None = None
    balanced: bool = False
    workers: int | None = None
    batch_scale: float = 1.0


def parse_changes(given: Mapping[str, str], sweeps: Sequence[str]) -> list[Change]:
    """The settings that hold throughout, and the product of the sweeps, the last one fastest; none: as captured.

    `given` maps a setting (bandwidth, latency, servers, workers, batch-scale) to its value; a sweep is
    ``bandwidth=1gbit,10gbit``.

    Raises:
        TfwaveError: no such setting, a malformed value, or a setting that is given twice; names the flag.
    """
    swept = dict(given.items())
    axes: list[list[tuple[str, str]]] = [[(name, text)] for name, text in given.items()]
    for sweep in sweeps:
        name, _, values = sweep.partition("=")
        texts = [text.strip() for text in values.split(",")]
        if name not in _PARSERS or not all(texts):
            raise TfwaveError(
                f"--sweep '{sweep}' is malformed: write NAME=VALUE,VALUE with one of {', '.join(_PARSERS)}"
            )
        if name in swept:
            raise TfwaveError(f"--sweep '{sweep}': {name} is given twice: name all its values in one place")
        swept[name] = values
        axes.append([(name, text) for text in texts])
    if math.prod(map(len, axes)) > _MOST_ROWS:
        raise TfwaveError(f"--sweep asks for more than {_MOST_ROWS} configurations: give fewer values")
    return [_change(settings) for settings in product(*axes)]


def _change(settings: Sequence[tuple[str, str]]) -> Change:
    change = Change(", ".join(f"{name} {text}" for name, text in settings) or Change.label)
    for name, text in settings:
        field, parse = _PARSERS[name]
        try:
            change = replace(change, **{field: parse(text)})
        except CostError as error:
            raise TfwaveError(f"--{name} {text}: {error}") from error
    return change


def _bandwidth(text: str) -> float:
    found = parse_bandwidth(text)
    if not found:
        raise CostError("it must be above zero")
    return found


def _count(text: str) -> int:
    found = parse_number(text)
    if not found or found > _MOST:
        raise CostError(f"give a whole number from 1 to {_MOST}")
    return found


def _scale(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 < found < math.inf:
        raise CostError("give a number above zero")
    return found


_PARSERS = {
    "bandwidth": ("bandwidth", _bandwidth),
    "latency": ("latency_seconds", parse_latency),
    "servers": ("servers", _count),
    "workers": ("workers", _count),
    "batch-scale": ("batch_scale", _scale),
}
