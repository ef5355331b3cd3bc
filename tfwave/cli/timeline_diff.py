"""`tfwave timeline-diff`: what differs between two steps, measured or simulated."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from tfwave.bundle.bundle import is_bundle, load_bundle
from tfwave.cli.output import JsonFlag, console, milliseconds, print_json, print_table
from tfwave.graph.names import short_channel
from tfwave.sim.timeline import Timeline
from tfwave.whatif.difference import Shift, TimelineDifference, compare
from tfwave.whatif.measured import measured_timeline
from tfwave.whatif.timeline_file import load_timeline


def timeline_diff_command(
    a: Annotated[
        Path, typer.Argument(help="A capture bundle, or a file of simulate --timeline.", metavar="A")
    ],
    b: Annotated[Path, typer.Argument(help="Another.", metavar="B")],
    top: Annotated[int, typer.Option(min=1, help="How many ops and transfers to show.")] = 10,
    as_json: JsonFlag = False,
) -> None:
    """Compare when things begin and how long they take: medians of captured steps, or simulated ones.

    [bold]Examples[/bold]

      tfwave timeline-diff demo-run/bundle demo-run/ordered

      tfwave simulate demo-run/bundle --timeline simulated.json

      tfwave timeline-diff demo-run/bundle simulated.json --top 20
    """
    found = compare(_load(a), _load(b))
    if as_json:
        print_json(_document(found, top))
        return
    _print(found, top)


def _load(path: Path) -> Timeline:
    return measured_timeline(load_bundle(path)) if is_bundle(path) else load_timeline(path)


def _document(found: TimelineDifference, top: int) -> dict[str, Any]:
    return {
        "makespan_seconds": {"a": found.makespan_a, "b": found.makespan_b},
        "resources": [asdict(use) for use in found.uses],
        "in_both": len(found.shifts),
        "most_shifted": [asdict(shift) for shift in found.most_shifted(top)],
        "most_changed": [asdict(shift) for shift in found.most_changed(top)],
        "only_a": [{"resource": resource, "name": name} for resource, name in found.only_a],
        "only_b": [{"resource": resource, "name": name} for resource, name in found.only_b],
    }


def _print(found: TimelineDifference, top: int) -> None:
    change = found.makespan_b / found.makespan_a - 1 if found.makespan_a else 0.0
    console.print(
        f"step: A {milliseconds(found.makespan_a)}, B {milliseconds(found.makespan_b)}: {change:+.1%}; "
        f"{len(found.shifts)} ops and transfers are in both"
    )
    print_table(
        "resources",
        ["resource", "A work", "B work", "A busy", "B busy"],
        [
            (
                short_channel(use.resource),
                _or_none(use.seconds_a, milliseconds),
                _or_none(use.seconds_b, milliseconds),
                _or_none(use.busy_a, _percent),
                _or_none(use.busy_b, _percent),
            )
            for use in found.uses
        ],
    )
    _print_shifts("largest differences of begin", found.most_shifted(top))
    _print_shifts("largest differences of duration", found.most_changed(top))
    _print_only("A", found.only_a, top)
    _print_only("B", found.only_b, top)


def _print_shifts(title: str, shifts: Sequence[Shift]) -> None:
    print_table(
        title,
        ["what", "on", "A begin", "B later by", "A takes", "B longer by"],
        [
            (
                shift.name,
                short_channel(shift.resource),
                milliseconds(shift.begin_a),
                _signed(shift.later),
                milliseconds(shift.seconds_a),
                _signed(shift.longer),
            )
            for shift in shifts
        ],
        words=["on"],
    )


def _print_only(which: str, names: Sequence[tuple[str, str]], top: int) -> None:
    if names:
        shown = ", ".join(f"{name} on {short_channel(resource)}" for resource, name in names[:top])
        more = f" and {len(names) - top} more" if len(names) > top else ""
        console.print(f"only in {which}: {shown}{more}", soft_wrap=True)


def _or_none(value: float | None, in_words: Callable[[float], str]) -> str:
    return "-" if value is None else in_words(value)


def _percent(share: float) -> str:
    return f"{share:.1%}"


def _signed(seconds: float) -> str:
    return f"{seconds * 1e3:+.2f} ms"
