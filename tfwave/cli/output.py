"""How commands print: tables for people, JSON for programs."""

import json
import math
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]

_DEVICE = re.compile(r"/job:([^/]+)/(?:replica:\d+/)?task:(\d+)/device:(.+)")

console = Console(highlight=False)
progress_console = Console(stderr=True, highlight=False)


def print_json(value: Any) -> None:
    """Print a value as JSON, keys in their own order; what is not finite is "NaN" or "Infinity", as in plans."""
    plain = json.loads(json.dumps(value), parse_constant=str)
    typer.echo(json.dumps(plain, indent=1))


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    words: Collection[str] = (),
    to: Console = console,
) -> None:
    """Print a table; the first column and those of `words` to the left, the others to the right."""
    table = Table(title=title, title_justify="left", title_style="bold")
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if i and column not in words else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(str, row))
    to.print(table)


def bandwidth(bytes_per_second: float) -> str:
    """A speed as `--bandwidth` takes it, in Mbit/s (10^6)."""
    return f"{bytes_per_second * 8 / 1e6:.1f} Mbit/s" if math.isfinite(bytes_per_second) else "any"


def short_device(device: str) -> str:
    """``/job:ps/replica:0/task:1/device:CPU:0`` as ``ps:1/CPU:0``."""
    return _DEVICE.sub(r"\1:\2/\3", device)


def milliseconds(seconds: float) -> str:
    """Seconds in words, in units of 10^-3."""
    return f"{seconds * 1e3:.2f} ms"


def against_captured(captured: float, unordered: float) -> str:
    """How far a simulated step without an order is off the captured one; both in seconds."""
    return (
        f"captured {milliseconds(captured)}, simulated unordered {milliseconds(unordered)}: "
        f"{unordered / captured - 1:+.1%}"
    )
