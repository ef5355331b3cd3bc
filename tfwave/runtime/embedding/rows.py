"""Which rows a few batches read and change, and in what order these travel: told beforehand, by NumPy alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from tfwave.errors import TfwaveError

EARLY, LATE, FIRST, REST = range(4)
"""Sets of a batch's rows. It reads the late ones, which the batch before reads too, when that one has updated them,
and the early ones before. It updates the first ones, which the batch behind reads too, and then the rest."""
SETS = 4


@dataclass(frozen=True)
class Shard:
    """Rows of a table that lie in one variable: so many, of `width` numbers each, on a server's device.

    A table that is cut by columns has several parts: 0, 1, ... Each has all of its rows, in one shard.
    """

    table: str
    server: str
    rows: int
    width: int
    part: int = 0

    @property
    def name(self) -> str:
        """Of the part."""
        return f"{self.table}[{self.part}]" if self.part else self.table


class RowSets(NamedTuple):
    """What a batch asks of the tables; all are int32.

    Attributes:
        positions: by part of a table, for each id the place of its row among those of its width; shaped as the
            ids are. A width's rows come in the order: early, then late ones, of each server, by shard and row.
        wanted: by server: how many rows of each set are of each shard, as a matrix; then these rows, set by set,
            numbered inside their shards.
        picks: by width: at which places the first rows are, and then the rest.
    """

    positions: dict[str, Any]
    wanted: tuple[Any, ...]
    picks: tuple[Any, ...]


class Layout:
    """The rows of all shards, numbered through: server by server, there by width, then as the shards came."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        """Of the shards of some tables, those of a table in the order of their rows, or of its parts."""
        self.servers = tuple(sorted({shard.server for shard in shards}))
        self.widths = tuple(sorted({shard.width for shard in shards}))
        order = sorted(range(len(shards)), key=lambda k: (shards[k].server, shards[k].width, k))
        self.order = tuple(order)
        """Which of the given shards comes at each place."""
        self.shards = tuple(shards[k] for k in order)
        self._starts: Any = np.cumsum([0, *(shard.rows for shard in self.shards)])
        self._widths: Any = np.array([self.widths.index(shard.width) for shard in self.shards])
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

    def width_of(self, part: str) -> int:
        return next(shard.width for shard in self.shards if shard.name == part)

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
        wrong = (ids < 0) | (ids >= bounds[-1])
        if wrong.any():
            raise TfwaveError(
                f"table '{table}' has rows 0 to {bounds[-1] - 1}, and a batch asks for {ids[wrong][0]}: "
                "make the table larger, or map such ids to a row that it has"
            )
        return ids.astype(np.int64) + offsets[bounds.searchsorted(ids, "right") - 1]

    def row_sets(self, batches: Sequence[Mapping[str, Any]]) -> list[RowSets]:
        """What each batch of one call asks for, from the numbers of its rows.

        Before the first and behind the last batch is none: a call begins and ends with the tables up to date.
        """
        flat = [np.concatenate([numbers.ravel() for numbers in batch.values()]) for batch in batches]
        unique = [np.unique(numbers, return_inverse=True) for numbers in flat]
        rows = [numbers for numbers, _ in unique]
        late = [np.zeros(len(rows[0]), bool), *(_among(own, before) for before, own in pairwise(rows))]
        first = [*(_among(own, behind) for own, behind in pairwise(rows)), np.zeros(len(rows[-1]), bool)]
        return [self._sets(batches[k], rows[k], unique[k][1], late[k], first[k]) for k in range(len(batches))]

    def _sets(self, batch: Mapping[str, Any], rows: Any, inverse: Any, late: Any, first: Any) -> RowSets:
        shard = self._starts.searchsorted(rows, "right") - 1
        places, picks = np.empty(len(rows), np.int32), list[Any]()
        for width in range(len(self.widths)):
            own = self._widths[shard] == width
            order = np.concatenate([np.flatnonzero(own & ~late), np.flatnonzero(own & late)])
            places[order] = np.arange(len(order))
            picks.append(np.concatenate([places[own & first], places[own & ~first]]))
        masks = (~late, late, first, ~first)
        wanted = tuple(self._wanted(server, rows, shard, masks) for server in self.servers)
        return RowSets(_shaped(places[inverse.ravel()], batch), wanted, tuple(picks))

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
