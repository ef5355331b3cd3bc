"""Write docs/measured.md again: what tools/bench/results holds, with machine and conditions beside each table.

python tools/measured.py
"""

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tfwave.sizes import in_words, milliseconds
from tools.bench.view import Forecast, View
from tools.bench.views import VIEWS

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "tools" / "bench" / "results"
PAGE = ROOT / "docs" / "measured.md"
HEAD = """# What was measured

`make measured` writes this page from `tools/bench/results`, where `make bench` keeps all that it measures; here is
the gist. Another machine gives other figures, so each table names its own, with its load when the first run began.

Medians are of steps. Where it says "to", the least and the most of the medians of blocks, or of trials; blocks of
all modes took turns. *Over wire* is over the time that the bytes alone take on the link, *paired ratio* over the
block beside it, *throughput* over stock, or over what was there before. A *forecast gain* is the share of a step's
time that was foretold to be saved, before it was measured; it is *off* by so many points of that time.
"""
_Row = dict[str, Any]
_GAINS = ("forecast_gain:share", "measured_gain:share", "off:points")


def page() -> str:
    """All records, by name."""
    records = {path.stem: json.loads(path.read_text())["runs"] for path in sorted(RESULTS.glob("*.json"))}
    every = [
        told
        for name, runs in records.items()
        for view in VIEWS.get(name, ())
        for run in runs
        for told in foretold(view, rows(run["result"], view.rows))
    ]
    return "\n".join([HEAD, *_how_far(every, " of all tables"), *_records(records)])


def _records(records: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    for name, runs in records.items():
        yield from _record(name, runs)


def _record(name: str, runs: Sequence[Any]) -> Iterator[str]:
    yield f"## {name}\n"
    of_machine: dict[str, list[Any]] = {}
    for run in runs:
        of_machine.setdefault(_machine(run["machine"]), []).append(run)
    for machine, told in of_machine.items():
        yield f"On {machine}; load {told[0]['machine']['load_at_start'][0]:.1f}:\n"
        yield "\n".join(f"    {run['command']}" for run in told) + "\n"
        for view in VIEWS.get(name, ()):
            yield from table(view, [row for run in told for row in rows(run["result"], view.rows)])


def _machine(machine: Mapping[str, Any]) -> str:
    memory = ", ".join(
        [f"{machine['memory_bytes'] / 2**30:.1f} GiB", *(gpu["name"] for gpu in machine.get("gpus", ()))]
    )
    software = f"TensorFlow {machine['tensorflow']}, Python {machine['python']}, Linux {machine['kernel']}"
    return f"{machine['cpu']}, {machine['cores']} cores, {memory}; {software}"


def rows(result: Any, path: str) -> list[_Row]:
    """The rows at a path of a result (see `View`), each with the values around it; what is not there has none."""
    return list(_rows(result, [part for part in path.split("/") if part], {}))


def _rows(value: Any, path: Sequence[str], around: _Row) -> Iterator[_Row]:
    if isinstance(value, dict):
        around = around | _flat(value)
    if not path:
        yield around
        return
    first, *rest = path
    parts: dict[Any, Any] = dict(enumerate(value, 1)) if isinstance(value, list) else value
    for name in parts if first == "*" else {first} & parts.keys():
        named = {"around": around.get("mode"), "mode": name} if first == "*" else {}
        yield from _rows(parts[name], rest, around | named)


def _flat(value: Mapping[str, Any]) -> _Row:
    """Values by the keys that lead to them."""
    found: _Row = {}
    for key, part in value.items():
        if isinstance(part, dict):
            found |= {f"{key}.{inner}": deep for inner, deep in _flat(part).items()}
        else:
            found[key] = part
    return found


def table(view: View, found: list[_Row]) -> Iterator[str]:
    """The lines of a view's table of rows; none where there are none."""
    if found:
        yield f"{view.told}\n"
        told = foretold(view, found)
        found = [row | gains for row, gains in zip(found, told, strict=True)]
        keys = [column.partition(":") for column in (*view.columns, *(_GAINS if view.forecast else ()))]
        lines = [[_heading(key) for key, _, _ in keys], ["---"] * len(keys)]
        lines += [[_shown(row.get(key), unit) for key, _, unit in keys] for row in found]
        yield "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
        for column in view.mean:
            sizes = [abs(row[column]) for row in found if row.get(column) is not None]
            points = f"{fmean(sizes) * 100:.1f} points, at most {max(sizes) * 100:.1f}"
            yield f"Mean {_heading(column)} of {len(sizes)} rows: {points}.\n"
        yield from _how_far(told, "")


def foretold(view: View, found: Sequence[_Row]) -> list[_Row]:
    """Of each row the gain that was forecast, the one that was measured, and how far the first is off.

    Empty where there was no forecast, and in the rows on which others gain.
    """
    return [{} if view.forecast is None else _gains(view.forecast, row) for row in found]


def _gains(forecast: Forecast, row: _Row) -> _Row:
    gain, measured = (_gain(of, row) for of in (forecast.gain, forecast.measured))
    if gain is None or measured is None or row.get("mode") == forecast.baseline:
        return {}
    return {"forecast_gain": gain, "measured_gain": measured, "off": gain - measured}


def _gain(of: str, row: _Row) -> float | None:
    key, ratio, other = of.format(mode=row.get("mode")).partition("/")
    part, whole = (row.get(name) if name else 1.0 for name in (key, other))
    if part is None or whole is None:
        return None
    return 1 - part / whole if ratio else part


def _how_far(told: Sequence[_Row], where: str) -> Iterator[str]:
    """In the mean over all rows that had a forecast."""
    off = [abs(gains["off"]) for gains in told if gains]
    if off:
        rows_of = f"{len(off)} row{'s' if len(off) > 1 else ''}{where}"
        points = f"{fmean(off) * 100:.1f} points, at most {max(off) * 100:.1f}"
        yield f"Forecast gains of {rows_of}: off by {points}.\n"


def _heading(key: str) -> str:
    """In words: what is around every row says nothing, and units stand with the values."""
    words = re.sub(r"^(settings|modes|given|seconds)\.|_?seconds", "", key)
    return {"around": "under"}.get(words, re.sub(r"[._]", " ", words).strip())


def _shown(value: Any, unit: str) -> str:
    """A value in its unit, of many the least and the most; several without a unit as they are."""
    if isinstance(value, list):
        ends = [_shown(end, unit) for end in ((min(value), max(value)) if unit else value)]
        return (" to " if unit else ", ").join(ends)
    if value is None:
        return ""
    return _UNITS[unit](value) if isinstance(value, int | float) else str(value).replace("|", "\\|")


def _number(value: float) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


_UNITS: dict[str, Callable[[float], str]] = {
    "": _number,
    "bytes": in_words,
    "micro": lambda seconds: f"{seconds * 1e6:.1f} µs",
    "number": _number,
    "points": lambda share: f"{share * 100:+.1f}",
    "rate": lambda rate: f"{rate / 1e9:g} Gbit/s",
    "seconds": lambda seconds: f"{seconds:.1f} s",
    "share": lambda share: f"{share:.1%}",
    "time": milliseconds,
}


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"{PAGE} written")
