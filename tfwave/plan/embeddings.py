"""The section of a plan on staged steps: embedding tables on servers, whose rows travel while workers compute."""

import math
from dataclasses import dataclass

from tfwave.errors import PlanError

WHOLE, ROWS, COLUMNS = "whole", "rows", "columns"
LAYOUTS = (WHOLE, ROWS, COLUMNS)


@dataclass(frozen=True)
class EmbeddingTable:
    """A table of `rows` rows, `columns` numbers wide.

    `layout` is `WHOLE`, or by what it is cut, `ROWS` or `COLUMNS`; `servers` has the number of the server of each
    part, from 0.
    """

    name: str
    rows: int
    columns: int
    layout: str
    servers: tuple[int, ...]


@dataclass(frozen=True)
class RowPriorities:
    """Of a step's four transfers: lower goes first, equal ones go together.

    Repeated rows are those that the next batch reads too, cold ones the others.
    """

    repeated_push: int = 0
    repeated_pull: int = 1
    cold_pull: int = 2
    cold_push: int = 3

    @property
    def pushes_apart(self) -> bool:
        """Do the gradients of repeated rows leave before those of cold ones?"""
        return self.repeated_push < self.cold_push


@dataclass(frozen=True)
class Embeddings:
    """How staged steps go (Sven, thesis chapter 6), and what that promises.

    Attributes:
        tables: by name.
        steps: in one call; the rows of its first batch travel while nothing computes.
        staleness: by how many updates rows may be old; 0: none, and results are exact.
        hot_bytes: m_G of section 6.1.3, on a worker, for rows that it keeps during a call, slots included.
        table_bytes: m_H, of all tables, slots included.
        priorities: of the transfers.
        seconds: predicted: of a step; where several workers make steps beside each other, from the end of one to
            that of the next, whoever's; likewise
        stock_seconds: if each id is looked up by itself,
        unique_seconds: if each row travels once, and nothing overlaps, and
        bound_seconds: no order of its transfers takes less: the flow shop's floor.
        verdict: whether this is worth its while, in words; empty: not known.

    Raises:
        PlanError: a table twice, or one that cannot be; or steps, staleness, bytes, priorities or figures that
            cannot be; names it.
    """

    tables: tuple[EmbeddingTable, ...]
    steps: int
    staleness: int = 0
    hot_bytes: int = 0
    table_bytes: int = 0
    priorities: RowPriorities = RowPriorities()
    seconds: float = 0.0
    stock_seconds: float = 0.0
    unique_seconds: float = 0.0
    bound_seconds: float = 0.0
    verdict: str = ""

    def __post_init__(self) -> None:
        """Hold what every reader relies on."""
        named: set[str] = set()
        for table in self.tables:
            if table.name in named:
                raise PlanError(f"the plan has the embedding table '{table.name}' twice")
            named.add(table.name)
            _check_table(table)
        if not self.tables:
            raise PlanError("the plan stages steps of no table")
        if not 0 <= self.staleness < self.steps:
            raise PlanError(f"the plan has rows {self.staleness} updates old in calls of {self.steps} steps")
        if self.hot_bytes < 0 or self.table_bytes < 0:
            raise PlanError(
                f"the plan keeps {self.hot_bytes} bytes of rows, of tables of {self.table_bytes} bytes"
            )
        own = self.priorities
        if own.repeated_push > own.cold_push or own.repeated_pull > own.cold_pull:
            raise PlanError("the plan has cold rows go before repeated ones, which the next batch waits for")
        for figure in (self.seconds, self.stock_seconds, self.unique_seconds, self.bound_seconds):
            if not 0 <= figure < math.inf:
                raise PlanError(f"a time that the plan promises of staged steps is {figure} s")

    @property
    def alpha(self) -> float:
        """m_G / (m_G + m_H): the share of all bytes that a worker keeps."""
        return self.hot_bytes / (self.hot_bytes + self.table_bytes) if self.hot_bytes else 0.0

    def check_tables(self, there: tuple[EmbeddingTable, ...]) -> None:
        """Raises: PlanError: the job has other tables; names the first. Which server has the number 0 is free."""
        planned, own = ({table.name: table for table in tables} for tables in (self.tables, there))
        for name in sorted(planned | own):
            if name not in own or name not in planned:
                which = "the job lacks" if name in planned else "the plan lacks"
                raise PlanError(f"{which} the embedding table '{name}': {_AGAIN}")
            wanted, found = planned[name], own[name]
            if _shape(wanted) != _shape(found):
                raise PlanError(
                    f"the embedding table '{name}' is {_said(found)}, and the plan is for {_said(wanted)}: {_AGAIN}"
                )


_AGAIN = "capture and plan it again, with tfwave.embedding.capture and `tfwave embeddings`"


def _shape(table: EmbeddingTable) -> tuple[int, int, str, int]:
    return table.rows, table.columns, table.layout, len(table.servers)


def _said(table: EmbeddingTable) -> str:
    cut = "whole" if table.layout == WHOLE else f"by {table.layout} in {len(table.servers)} parts"
    return f"[{table.rows}, {table.columns}], {cut}"


def _check_table(table: EmbeddingTable) -> None:
    if table.layout not in LAYOUTS:
        raise PlanError(
            f"the embedding table '{table.name}' lies by '{table.layout}', it must be one of {', '.join(LAYOUTS)}"
        )
    parts = len(table.servers)
    if table.rows < 1 or table.columns < 1 or parts < 1 or (table.layout == WHOLE and parts > 1):
        raise PlanError(f"the embedding table '{table.name}' is {_said(table)}, on {parts} servers")
    if min(table.servers) < 0:
        raise PlanError(f"the embedding table '{table.name}' lies on server {min(table.servers)}")
