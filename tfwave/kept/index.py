"""Rows by id, and counts of ids, for many ids at once."""

from typing import Any

import numpy as np

_ODD = np.uint64(0x9E3779B97F4A7C15)
_SALTS = tuple(np.uint64(salt) for salt in (0, 0x632BE59BD9B4E019, 0xD1B54A32D192ED03))


class Index:
    """The row of each id: a hash table that is probed place by place, of at least twice as many places as rows."""

    def __init__(self, capacity: int) -> None:
        """For so many ids at most."""
        self._bits = (2 * capacity).bit_length()
        self.clear()

    def clear(self) -> None:
        self._ids = np.zeros(1 << self._bits, np.int64)
        self._rows = np.full(1 << self._bits, -1, np.int64)

    def rows_of(self, ids: Any) -> Any:
        """-1 for an id that has none."""
        return self._rows[self._places(ids)]

    def put(self, ids: Any, rows: Any) -> None:
        """Give ids a row, each once, that have none."""
        left = np.arange(len(ids))
        while len(left):
            places, first = np.unique(self._places(ids[left]), return_index=True)
            self._ids[places], self._rows[places] = ids[left[first]], rows[left[first]]
            left = np.delete(left, first)

    def _places(self, ids: Any) -> Any:
        """Of each id, or the free one that it would get."""
        places = _hashed(ids, self._bits, _SALTS[0])
        left = np.arange(len(ids))
        while len(left):
            at = places[left]
            left = left[(self._rows[at] >= 0) & (self._ids[at] != ids[left])]
            places[left] = (places[left] + 1) & ((1 << self._bits) - 1)
        return places


class Counts:
    """How often ids came, in a memory that no number of ids makes larger: a count-min sketch.

    A count may be too high, where others fall on the same counters, and is never too low.
    """

    def __init__(self, ids: int) -> None:
        """Counts are good while not many more ids than these come."""
        self._bits = (2 * ids).bit_length()
        self.counters = np.zeros((len(_SALTS), 1 << self._bits), np.int64)
        """All that it knows."""

    def add(self, ids: Any, counts: Any) -> Any:
        """Count ids, each given once, and tell how often each came until now."""
        found: list[Any] = []
        for counters, salt in zip(self.counters, _SALTS, strict=True):
            places = _hashed(ids, self._bits, salt)
            np.add.at(counters, places, counts)
            found.append(counters[places])
        return np.min(found, axis=0)

    def halve(self) -> None:
        """Forget half of each count."""
        self.counters //= 2


def _hashed(ids: Any, bits: int, salt: Any) -> Any:
    mixed = (ids.astype(np.uint64) ^ salt) * _ODD
    mixed = (mixed ^ (mixed >> np.uint64(29))) * _ODD
    return (mixed >> np.uint64(64 - bits)).astype(np.int64)
