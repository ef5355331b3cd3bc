"""The ids that have a row of their own."""

from collections.abc import Callable
from io import BytesIO
from typing import Any

import numpy as np

from tfwave.errors import TfwaveError
from tfwave.kept.index import Counts, Index
from tfwave.kept.policies import Policy
from tfwave.kept.worths import Worths

NONE = -1
_NO_COUNTS = np.zeros((0, 0), np.int64)
_EVICTED = "evicted_"


class Residents:
    """Ids, any of int64, and the rows that they have.

    What evicted ids were worth is remembered, of as many as there are rows: one that comes again is worth that.
    Memory and the time of a batch go by the capacity and by the batch's ids, not by how many ids there ever were.
    """

    def __init__(self, capacity: int, policy: Policy, *, admit: int = 1) -> None:
        """All rows are free.

        Args:
            capacity: rows.
            policy: which ids are evicted.
            admit: an id gets a row in the batch in which it has come so often.

        Raises:
            TfwaveError: a capacity or count below 1.
        """
        if capacity < 1 or admit < 1:
            raise TfwaveError(f"capacity and admit must be at least 1, not {capacity} and {admit}")
        self.capacity, self._policy, self._admit = capacity, policy, admit
        self._counts = Counts(capacity) if admit > 1 else None
        self._index = Index(capacity)
        self._now = 0
        self._ids = np.zeros(capacity, np.int64)
        self._used = np.zeros(capacity, bool)
        self._worth = np.zeros(capacity)
        self._last = np.zeros(capacity, np.int64)
        self._evicted = Worths.of_none()

    def __len__(self) -> int:
        return int(self._used.sum())

    def ids(self) -> tuple[Any, Any]:
        """Those that have a row, and these rows, in the order of the rows."""
        rows = np.flatnonzero(self._used)
        return self._ids[rows], rows

    def known(self, ids: Any) -> Any:
        """Their rows, or `NONE`; changes nothing."""
        return self._index.rows_of(np.asarray(ids, np.int64).ravel()).reshape(np.shape(ids))

    def rows_of(self, ids: Any, positive: Any = None, came: Any = None) -> Any:
        """Of a batch's ids the rows, shaped as they are; `NONE` for one that is not admitted, or finds no free row.

        Args:
            ids: of integers.
            positive: how often each came in positive samples, shaped as they are; never if left out.
            came: how often each came at all, shaped as they are; once if left out.
        """
        flat = np.asarray(ids, np.int64).ravel()
        unique, inverse = np.unique(flat, return_inverse=True)
        counts = np.bincount(inverse, None if came is None else came.ravel(), len(unique)).astype(np.int64)
        rows = self._index.rows_of(unique)
        new = np.flatnonzero(rows == NONE)
        rows[new] = self._admitted(unique[new], counts[new])
        clicks = np.zeros(len(flat)) if positive is None else np.asarray(positive, float).ravel()
        positives = np.bincount(inverse, clicks, len(unique))
        self._renew(rows, counts - positives, positives)
        return rows[inverse].reshape(np.shape(ids))

    def evict(self, keep: int, begin_anew: Callable[[Any], None] = lambda rows: None) -> Any:
        """Free the rows of all but so many ids; which these rows are, sorted. Equal ones go by their ids.

        `begin_anew` gets them before they are free: where it raises, all ids keep theirs.

        Raises:
            TfwaveError: fewer than none are to be kept.
        """
        if keep < 0:
            raise TfwaveError(f"{keep} ids cannot keep their rows: give at least 0")
        _, rows = self.ids()
        held = self._held(rows)
        least = held.ranked(self._policy, self._now)[: max(0, len(rows) - keep)]
        freed = np.sort(rows[least])
        begin_anew(freed)
        self._remember(held.chosen(least))
        self._used[freed] = False
        self._index.clear()
        self._index.put(*self.ids())
        if self._counts:
            self._counts.halve()
        return freed

    def dumps(self) -> bytes:
        """All of it, for `loads`."""
        _, rows = self.ids()
        counts = self._counts.counters if self._counts else _NO_COUNTS
        written = BytesIO()
        np.savez_compressed(
            written,
            now=self._now,
            rows=rows,
            counts=counts,
            **self._held(rows)._asdict(),
            **{_EVICTED + name: column for name, column in self._evicted._asdict().items()},
        )
        return written.getvalue()

    def loads(self, written: bytes) -> None:
        """Take over what `dumps` of one with the same capacity returned.

        Counts of ids begin anew where that one had none, as it admitted ids at once, or is of an earlier tfwave:
        such a one remembers no evicted ids, either.

        Raises:
            TfwaveError: it has rows that there are not, or was written by workers.
        """
        with np.load(BytesIO(written)) as kept:
            if "rows" not in kept:
                raise TfwaveError(
                    "the ids of the checkpoint are of a table on workers, and this one is on servers"
                )
            rows = kept["rows"]
            if len(rows) and rows[-1] >= self.capacity:
                raise TfwaveError(f"row {rows[-1]} is kept, of a table with a capacity of {self.capacity}")
            self._now, self._used[:] = int(kept["now"]), False
            self._ids[rows], self._worth[rows], self._last[rows] = kept["ids"], kept["worth"], kept["last"]
            self._used[rows] = True
            columns = Worths.of_none()._asdict().items()
            self._evicted = Worths(*(kept.get(_EVICTED + name, none) for name, none in columns))
            if self._counts:
                held, counts = self._counts.counters, kept.get("counts", _NO_COUNTS)
                held[:] = counts if counts.shape == held.shape else 0
        self._index.clear()
        self._index.put(*self.ids())

    def _admitted(self, ids: Any, counts: Any) -> Any:
        """Rows for new ids, those that came most often first."""
        rows = np.full(len(ids), NONE)
        came = self._counts.add(ids, counts) if self._counts else counts
        chosen = np.argsort(-counts, kind="stable")
        chosen = chosen[came[chosen] >= self._admit]
        if not len(chosen):
            return rows
        free = np.flatnonzero(~self._used)[: len(chosen)]
        chosen = chosen[: len(free)]
        rows[chosen] = free
        self._ids[free], self._used[free] = ids[chosen], True
        self._worth[free], self._last[free] = self._evicted.of(ids[chosen], self._now)
        self._index.put(ids[chosen], free)
        return rows

    def _held(self, rows: Any) -> Worths:
        """What the ids of these rows are worth."""
        return Worths(self._ids[rows], self._worth[rows], self._last[rows])

    def _remember(self, freed: Worths) -> None:
        """What these are worth, too, which still have rows; of all that were evicted those that are worth most."""
        away = self._evicted.chosen(self._index.rows_of(self._evicted.ids) == NONE).beside(freed)
        self._evicted = away.chosen(away.ranked(self._policy, self._now)[-self.capacity :]).by_id()

    def _renew(self, rows: Any, negatives: Any, positives: Any) -> None:
        self._now += 1
        own = rows != NONE
        rows, age = rows[own], self._now - self._last[rows[own]]
        self._worth[rows] = self._policy.renewed(self._worth[rows], age, negatives[own], positives[own])
        self._last[rows] = self._now
