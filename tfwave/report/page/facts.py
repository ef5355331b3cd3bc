"""What a page says: plain figures, texts and tables. What is None or empty has no section."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Cell = str | int | float | None
Rows = Sequence[Sequence[Cell]]


@dataclass(frozen=True)
class Answer:
    """A question that a page answers first; `good` is None where nothing tells."""

    question: str
    text: str
    good: bool | None = None


@dataclass(frozen=True)
class Figure:
    """One figure in large, and what it is, in words."""

    value: str
    words: str


@dataclass(frozen=True)
class Table:
    """Rows under columns; numbers are shown as they are."""

    columns: Sequence[str]
    rows: Rows


@dataclass(frozen=True)
class Section:
    """A chart and its table.

    Attributes:
        name: of the chart, by which the page's script draws it; also the anchor.
        title: for people.
        text: what one sees, in a sentence or two; what a screen reader reads for the chart.
        chart: what is drawn, ready for JSON.
        table: the same, to read; None where the script makes it of the chart's data, which are long.
        summary: the rows that the Markdown has, where the table is long.
    """

    name: str
    title: str
    text: str
    chart: dict[str, Any]
    table: Table | None = None
    summary: Table | None = None


@dataclass(frozen=True)
class Facts:
    """All of a page; `figures` are four at most, `settings` has what one has to set."""

    title: str
    inputs: tuple[str, ...]
    answers: tuple[Answer, ...]
    figures: tuple[Figure, ...]
    settings: Table
    sections: tuple[Section, ...]
