"""Which rows a few batches read and change, and in what order these travel: told beforehand, by NumPy alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tfwave.errors import TfwaveError

EARLY, LATE, FIRST, REST, NEW = range(5)
"""Sets of a batch's rows. It reads the late ones, which one of the two batches before reads too, when these have
updated them, and the early ones before. It updates the first ones, which the batch behind reads too, and then the
rest. Of the kept rows, which stay on the worker until the call ends, those are new that no batch before it in the
call has."""
SETS = 5
_BYTES = 4
"""Of a float32."""


@dataclass(frozen=True)
class Shard:
    """Rows of a table that lie in one variable: so many, of `width` numbers each, on a server's device.

    A table that is cut by columns has several parts: 0, 1, ... Each has all of its rows, in one shard. `kind` is
    another number for each optimizer, and `slots` how many numbers that keeps beside each.
    """

    table: str
    server: str
    rows: int
    width: int
    part: int = 0
    kind: int = 0
    slots: int = 0

    @property
    def name(self) -> str:
        """Of the part."""
        return f"{self.table}[{self.part}]" if self.part else self.table


class RowSets(NamedTuple):
    """What a batch asks of the tables; all are int32.

    Attributes:
        positions: by part of a table, for each id the place of its row among those of its column; shaped as the
            ids are. A column is of the shards of one width and kind; its rows come in the order: early, then late,
            then kept ones, of each server, by shard and row.
        wanted: by server: how many rows of each set are of each shard, as a matrix; then these rows, set by set,
            numbered inside their shards.
        picks: by column: at which places the first rows are, and then the rest.
        kept: by column: where the worker has the kept rows, among those that it keeps of that column.
        fresh: by column: the same of those among them that are new.
    """

    positions: dict[str, Any]
    wanted: tuple[Any, ...]
    picks: tuple[Any, ...]
    kept: tuple[Any, ...]
    fresh: tuple[Any, ...]


class Layout:
    """The rows of all shards, numbered through: server by server, there by column, then as the shards came."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        """Of the shards of some tables, those of a table in the order of their rows, or of its parts."""
        self.servers = tuple(sorted({shard.server for shard in shards}))
        columns = sorted({(shard.width, shard.kind, shard.slots) for shard in shards})
        self.widths = tuple(width for width, _, _ in columns)
        """Of the columns; their"""
        self.slots = tuple(slots for _, _, slots in columns)
        kinds = [columns.index((shard.width, shard.kind, shard.slots)) for shard in shards]
        order = sorted(range(len(shards)), key=lambda k: (shards[k].server, kinds[k], k))
        self.order = tuple(order)
        """Which of the given shards comes at each place."""
        self.shards = tuple(shards[k] for k in order)
        self._starts: Any = np.cumsum([0, *(shard.rows for shard in self.shards)])
        self.columns: Any = np.array([kinds[k] for k in order])
        """Of the shards."""
        place = {k: place for place, k in enumerate(order)}
        self._bounds: dict[str, Any] = {}
        self._offsets: dict[str, Any] = {}
        self.parts: dict[str, list[str]] = {}
        """Of each table, in the order of their columns."""
        for part in dict.fromkeys((shard.table, shard.name) for shard in shards):
            self.parts.setdefault(part[0], []).append(part[1])
            own = [k for k, shard in enumerate(shards) if shard.name == part[1]]
            bounds = np.cumsum([0, *(shards[k].rows for k in own)])
            self._bounds[part[1]] = bounds
            self._offsets[part[1]] = self._starts[[place[k] for k in own]] - bounds[:-1]

    @property
    def tables(self) -> tuple[str, ...]:
        return tuple(self.parts)

    def column_of(self, part: str) -> int:
        return next(
            int(column) for shard, column in zip(self.shards, self.columns, strict=True) if shard.name == part
        )

    def width_of(self, part: str) -> int:
        return self.widths[self.column_of(part)]

    def places(self, server: str) -> tuple[int, ...]:
        """Of the shards on a server."""
        return tuple(place for place, shard in enumerate(self.shards) if shard.server == server)

    def numbers(self, ids: Mapping[str, Any]) -> dict[str, Any]:
        """The numbers of the rows that a batch asks for, shaped as the ids are, by part of a table.

        Raises:
            TfwaveError: an id that is no row of its table; names it.
        """
        return {
            part: self._numbers_of(table, part, np.asarray(ids[table]))
            for table, parts in self.parts.items()
            for part in parts
        }

    def _numbers_of(self, table: str, part: str, ids: Any) -> Any:
        bounds, offsets = self._bounds[part], self._offsets[part]
        if ids.size and not 0 <= ids.min() <= ids.max() < bounds[-1]:
            wrong = ids[(ids < 0) | (ids >= bounds[-1])]
            raise TfwaveError(
                f"table '{table}' has rows 0 to {bounds[-1] - 1}, and a batch asks for {wrong[0]}: "
                "make the table larger, or map such ids to a row that it has"
            )
        shard = bounds.searchsorted(ids, "right") - 1 if len(offsets) > 1 else 0
        return ids.astype(np.int64) + offsets[shard]

    def row_sets(self, batches: Sequence[Mapping[str, Any]], hot_bytes: int = 0) -> list[RowSets]:
        """What each batch of one call asks for, from the numbers of its rows.

        Before the first and behind the last batch is none: a call begins and ends with the tables up to date.

        Args:
            batches: by part, as `numbers` gives them.
            hot_bytes: as many rows that several batches have are kept, with their slots, as fit into it.
        """
        flat = [np.concatenate([numbers.ravel() for numbers in batch.values()]) for batch in batches]
        unique = [np.unique(numbers, return_inverse=True) for numbers in flat]
        rows = [numbers for numbers, _ in unique]
        hot = self._hot(rows, hot_bytes)
        ranks, seen = self._ranks(hot), np.zeros(len(hot), bool)
        nothing = rows[0][:0]
        found: list[RowSets] = []
        for k, (own, inverse) in enumerate(unique):
            kept = _among(own, hot)
            late = np.any([_among(own, others) for others in (nothing, *rows[max(0, k - 2) : k])], 0) & ~kept
            first = _among(own, rows[k + 1] if k + 1 < len(rows) else nothing) & ~kept
            places = hot.searchsorted(own[kept])
            new, rank = kept.copy(), np.zeros(len(own), np.int32)
            new[kept], rank[kept] = ~seen[places], ranks[places]
            seen[places] = True
            masks = (~late & ~kept, late, first, ~first, new)
            found.append(self._sets(batches[k], own, inverse, masks, rank))
        return found

    def _hot(self, rows: Sequence[Any], most: int) -> Any:
        """The rows to keep, sorted: those of most batches, of two at least, while they fit into so many bytes."""
        if not most:
            return rows[0][:0]
        numbers, counts = np.unique(np.concatenate(rows), return_counts=True)
        chosen = np.argsort(-counts, kind="stable")[: int((counts > 1).sum())]
        sizes = np.array([_BYTES * w * (1 + slots) for w, slots in zip(self.widths, self.slots, strict=True)])
        needed = np.cumsum(sizes[self._columns_of(numbers[chosen])])
        return np.sort(numbers[chosen[: needed.searchsorted(most, "right")]])

    def _ranks(self, rows: Any) -> Any:
        """The place of each among those of its column."""
        columns, ranks = self._columns_of(rows), np.zeros(len(rows), np.int32)
        for column in range(len(self.widths)):
            own = columns == column
            ranks[own] = np.arange(own.sum())
        return ranks

    def _columns_of(self, rows: Any) -> Any:
        return self.columns[self._starts.searchsorted(rows, "right") - 1]

    def _sets(
        self, batch: Mapping[str, Any], rows: Any, inverse: Any, masks: Sequence[Any], rank: Any
    ) -> RowSets:
        """`masks` are of the sets; `rank` is where kept rows are kept."""
        shard = self._starts.searchsorted(rows, "right") - 1
        columns, kept = self.columns[shard], ~(masks[EARLY] | masks[LATE])
        places = np.empty(len(rows), np.int32)
        for column in range(len(self.widths)):
            own = columns == column
            order = np.concatenate([np.flatnonzero(own & mask) for mask in (masks[EARLY], masks[LATE], kept)])
            places[order] = np.arange(len(order))

        def of(values: Any, *chosen: Any) -> tuple[Any, ...]:
            """By column the values of the rows of some masks, one mask after the other."""
            return tuple(
                np.concatenate([values[(columns == column) & mask] for mask in chosen])
                for column in range(len(self.widths))
            )

        return RowSets(
            _shaped(places[inverse.ravel()], batch),
            tuple(self._wanted(server, rows, shard, masks) for server in self.servers),
            of(places, masks[FIRST], masks[REST]),
            of(rank, kept),
            of(rank, masks[NEW]),
        )

    def _wanted(self, server: str, rows: Any, shard: Any, masks: Sequence[Any]) -> Any:
        own = self.places(server)
        here: Any = (shard >= own[0]) & (shard <= own[-1])
        local: Any = rows - self._starts[shard]
        counts = [np.bincount(shard[mask & here] - own[0], minlength=len(own)) for mask in masks]
        return np.concatenate([*counts, *(local[mask & here] for mask in masks)]).astype(np.int32)


def _shaped(flat: Any, batch: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers that come one after the other, by part of a table, shaped as the ids are."""
    pieces = np.split(flat, np.cumsum([numbers.size for numbers in batch.values()])[:-1])
    return {part: piece.reshape(batch[part].shape) for part, piece in zip(batch, pieces, strict=True)}


def _among(rows: Any, others: Any) -> Any:
    """Which of the rows are among the others; both sorted, without repetition."""
    if not len(others):
        return np.zeros(len(rows), bool)
    place: Any = np.minimum(others.searchsorted(rows), len(others) - 1)
    return others[place] == rows
