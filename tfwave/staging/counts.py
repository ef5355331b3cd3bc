"""What of the tables a call of several batches moves: bytes of each set of rows, counted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tfwave.plan.embeddings import COLUMNS
from tfwave.staging.capture import Capture, CapturedTable, unpacked

BYTES = 4
"""Of a float32, and of the int32 by which a server is told a row."""


class Load(NamedTuple):
    """Bytes that a worker moves one way, of these the most to or from one server, and how many rows they are of."""

    total: float
    busiest: float
    rows: int


@dataclass(frozen=True)
class BatchLoads:
    """What a batch of a call moves.

    `asked` tells the servers which rows. It pulls `late` rows when the two batches before have updated them,
    `early` ones before that, and `new` ones, which stay on the worker until the call ends, once, with their slots.
    It pushes gradients of the `first` rows, which the batch behind reads too, and of the `rest`. The `dense`
    variables beside the tables come when the batch before has updated them, and their gradients leave.
    """

    asked: Load
    early: Load
    late: Load
    new: Load
    first: Load
    rest: Load
    dense: Load

    @property
    def pulled_rows(self) -> tuple[Load, ...]:
        return self.early, self.late, self.new

    @property
    def pushed_rows(self) -> tuple[Load, ...]:
        return self.first, self.rest

    @property
    def pulled(self) -> tuple[Load, ...]:
        return self.dense, *self.pulled_rows

    @property
    def pushed(self) -> tuple[Load, ...]:
        return self.dense, *self.pushed_rows

    @property
    def moved(self) -> float:
        """Bytes, both ways."""
        return sum(load.total for load in (self.asked, *self.pulled, *self.pushed))


class Counted:
    """The rows of captured batches, numbered through all tables."""

    def __init__(self, capture: Capture) -> None:
        """Raises: CostError: as `Capture.check`."""
        capture.check()
        self._tables = capture.tables
        self._starts: Any = np.cumsum([0, *(table.rows for table in capture.tables)])
        self.batches = [
            np.concatenate(
                [
                    unpacked(batch.rows[table.name]) + start
                    for table, start in zip(self._tables, self._starts, strict=False)
                ]
            )
            for batch in capture.batches
        ]
        self._servers = 1 + max(part.server for table in self._tables for part in table.parts)
        self.stock = [self._ids_of(batch.ids) for batch in capture.batches]
        """What each batch moves one way if each id is looked up by itself, as the parts of a table are equal."""
        dealt = [capture.dense_bytes[k :: self._servers] for k in range(self._servers)]
        self.dense = Load(float(sum(capture.dense_bytes)), float(max(map(sum, dealt))), 0)
        """Of the variables beside the tables, which are dealt out to the servers in turn."""

    @property
    def table_bytes(self) -> int:
        """m_H: of all tables, with their slots."""
        return sum(BYTES * t.rows * t.columns * (1 + t.slots) for t in self._tables)

    def windows(self, steps: int) -> list[range]:
        """Calls of so many batches each, as often as the capture has them."""
        return [range(k, k + steps) for k in range(0, len(self.batches) - steps + 1, steps)]

    def loads(self, window: range, hot_bytes: int) -> list[BatchLoads]:
        """Of each batch of a call, which keeps rows within so many bytes."""
        rows = [self.batches[k] for k in window]
        hot = self._hot(rows, hot_bytes)
        seen = hot[:0]
        found: list[BatchLoads] = []
        for k, own in enumerate(rows):
            kept = np.intersect1d(own, hot, assume_unique=True)
            cold = np.setdiff1d(own, kept, assume_unique=True)
            late = cold[np.isin(cold, np.concatenate([cold[:0], *rows[max(0, k - 2) : k]]))]
            first = np.intersect1d(cold, rows[k + 1], assume_unique=True) if k + 1 < len(rows) else cold[:0]
            new = np.setdiff1d(kept, seen, assume_unique=True)
            seen = np.union1d(seen, new)
            found.append(
                BatchLoads(
                    asked=self._load(own, by_row=True),
                    early=self._load(np.setdiff1d(cold, late, assume_unique=True)),
                    late=self._load(late),
                    new=self._load(new, slots=True),
                    first=self._load(first),
                    rest=self._load(np.setdiff1d(own, first, assume_unique=True)),
                    dense=self.dense,
                )
            )
        return found

    def _hot(self, rows: Sequence[Any], most: int) -> Any:
        """Rows of most batches, of two at least, while they fit; equal ones by their number."""
        numbers, counts = np.unique(np.concatenate(rows), return_counts=True)
        chosen = np.argsort(-counts, kind="stable")[: int((counts > 1).sum())]
        sizes = np.array([BYTES * t.columns * (1 + t.slots) for t in self._tables])
        needed = np.cumsum(sizes[self._starts.searchsorted(numbers[chosen], "right") - 1])
        return np.sort(numbers[chosen[: needed.searchsorted(most, "right")]])

    def _load(self, numbers: Any, *, slots: bool = False, by_row: bool = False) -> Load:
        servers = np.zeros(self._servers)
        bounds: Any = numbers.searchsorted(self._starts)
        for k, table in enumerate(self._tables):
            own = numbers[bounds[k] : bounds[k + 1]] - self._starts[k]
            if len(own):
                _add(servers, table, own, (1 + table.slots) * BYTES if slots else BYTES, by_row=by_row)
        return Load(float(servers.sum()), float(servers.max()), len(numbers))

    def _ids_of(self, ids: dict[str, int]) -> Load:
        servers = np.zeros(self._servers)
        for table in self._tables:
            shares = 1 if table.layout == COLUMNS else len(table.parts)
            for part in table.parts:
                servers[part.server] += BYTES * part.columns * ids[table.name] / shares
        return Load(float(servers.sum()), float(servers.max()), sum(ids.values()))


def _add(servers: Any, table: CapturedTable, rows: Any, size: int, *, by_row: bool) -> None:
    """Add bytes of some rows of a table: `size` for each number of theirs, or for each row of a part."""
    heights = np.cumsum([part.rows for part in table.parts])
    counts = (
        np.diff(rows.searchsorted([0, *heights])) if table.layout != COLUMNS else [len(rows)] * len(heights)
    )
    for part, count in zip(table.parts, counts, strict=True):
        servers[part.server] += size * count * (1 if by_row else part.columns)
