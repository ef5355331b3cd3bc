"""Local search: moves of one variable and exchanges of two."""

from collections.abc import Iterator, Sequence

import numpy as np

_NEIGHBOURS = 8
"""A variable is exchanged with so many of the next smaller ones: others would upset the totals."""
_MOST_ROUNDS = 4


class Exchanges:
    """Variables (bytes, moment of need, server), and the bytes needed of each server by each moment.

    The moments count from 0. `improve` expects the variables largest first.
    """

    def __init__(
        self, sizes: Sequence[int], moments: Sequence[int], assigned: Sequence[int], servers: int
    ) -> None:
        """Start from a placement: the server of each variable."""
        self.assigned = list(assigned)
        self._sizes = sizes
        self._moments = moments
        self._servers = servers
        self._needed = np.zeros((servers, max(moments, default=0) + 1), np.int64)
        for size, moment, server in zip(sizes, moments, assigned, strict=True):
            self._needed[server, moment:] += size
        self._totals: list[int] = self._needed[:, -1].tolist()

    @property
    def measure(self) -> tuple[int, int]:
        """(bytes of the busiest server, bytes waited for)."""
        return max(self._totals), sum(self._needed.max(axis=0).tolist())

    def improve(self) -> None:
        """Do what betters the measure, in a fixed order, until nothing does or the rounds are over."""
        for _ in range(_MOST_ROUNDS):
            before = self.measure
            for i in range(len(self.assigned)):
                self._improve_one(i)
            if self.measure == before:
                return

    def _improve_one(self, i: int) -> None:
        best = self.measure
        for changes in self._changes(i):
            if not self._fits(changes, best[0]):
                continue
            back = [(j, self.assigned[j]) for j, _ in changes]
            self._assign(changes)
            found = self.measure
            if found < best:
                best = found
            else:
                self._assign(back)

    def _changes(self, i: int) -> Iterator[list[tuple[int, int]]]:
        """Each as (variable, its new server)."""
        for server in range(self._servers):
            if server != self.assigned[i]:
                yield [(i, server)]
        for j in range(i + 1, min(i + 1 + _NEIGHBOURS, len(self.assigned))):
            if self.assigned[j] != self.assigned[i]:
                yield [(i, self.assigned[j]), (j, self.assigned[i])]

    def _fits(self, changes: Sequence[tuple[int, int]], most: int) -> bool:
        """Whether no server would have more than `most` bytes: all else is not worth a closer look."""
        added = [0] * self._servers
        for i, server in changes:
            added[self.assigned[i]] -= self._sizes[i]
            added[server] += self._sizes[i]
        return all(self._totals[s] + more <= most for s, more in enumerate(added) if more > 0)

    def _assign(self, changes: Sequence[tuple[int, int]]) -> None:
        for i, server in changes:
            self._needed[self.assigned[i], self._moments[i] :] -= self._sizes[i]
            self._needed[server, self._moments[i] :] += self._sizes[i]
            self._totals[self.assigned[i]] -= self._sizes[i]
            self._totals[server] += self._sizes[i]
            self.assigned[i] = server
