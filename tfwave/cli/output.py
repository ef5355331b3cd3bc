"""How commands print: tables for people, JSON for programs."""

import json
import math
from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tfwave.graph.names import short_device
from tfwave.sizes import milliseconds

__all__ = [
    "JsonFlag",
    "against_captured",
    "bandwidth",
    "console",
    "milliseconds",
    "print_json",
    "print_table",
    "progress_console",
    "say_written",
    "short_device",
    "under_way",
]

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]

# Names of users are shown as they are, whatever brackets and colons they have.
console = Console(highlight=False, markup=False, emoji=False)
progress_console = Console(stderr=True, highlight=False, markup=False, emoji=False)


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


def under_way(what: str) -> AbstractContextManager[Any]:
    """Say what is being done, as long as that takes, to people at a terminal."""
    return progress_console.status(Text(what))


def say_written(path: Path | str | None, how: str = "written", to: Console = console) -> None:
    """Tell people where a file is, or nothing if there is none."""
    if path is not None:
        to.print(f"{how} to '{path}'", soft_wrap=True)


def bandwidth(bytes_per_second: float) -> str:
    """A speed as `--bandwidth` takes it, in Mbit/s (10^6)."""
    return f"{bytes_per_second * 8 / 1e6:.1f} Mbit/s" if math.isfinite(bytes_per_second) else "any"


def against_captured(captured: float, unordered: float) -> str:
    """How far a simulated step without an order is off the captured one; both in seconds."""
    return (
        f"captured {milliseconds(captured)}, simulated unordered {milliseconds(unordered)}: "
        f"{unordered / captured - 1:+.1%}"
    )
