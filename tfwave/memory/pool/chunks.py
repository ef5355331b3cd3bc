"""The free chunks of a pool, by address and by kind."""

from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import NamedTuple

SYNCHRONISED: frozenset[int] = frozenset()
"""The kind of a free chunk that any stream may use at once."""


class Chunk(NamedTuple):
    """Bytes of the pool from `start` on.

    `streams` is the kind of a free chunk: those that may still work on it, as nothing has synchronised since they
    freed it.
    """

    start: int
    size: int
    streams: frozenset[int] = SYNCHRONISED

    @property
    def end(self) -> int:
        """The address behind its last byte."""
        return self.start + self.size


class FreeChunks:
    """Free chunks that coalesce with neighbours of their own kind; if they `mix`, with any.

    A search costs O(log n) per kind; to add or remove one that, and shifting up to n entries of a list.
    """

    def __init__(self, *, mix: bool) -> None:
        """Start with none."""
        self._mix = mix
        self._by_start: dict[int, Chunk] = {}
        self._by_end: dict[int, Chunk] = {}
        self._sizes: dict[frozenset[int], list[tuple[int, int]]] = {}
        self.bytes = 0

    @property
    def kinds(self) -> list[frozenset[int]]:
        """Those of which there are any."""
        return list(self._sizes)

    @property
    def largest(self) -> int:
        """The size of the largest chunk, 0 without any."""
        return max((sizes[-1][0] for sizes in self._sizes.values()), default=0)

    def ending_at(self, address: int) -> int:
        """The bytes of the chunk that ends there, 0 without one."""
        chunk = self._by_end.get(address)
        return chunk.size if chunk else 0

    def best(self, size: int, kinds: Iterable[frozenset[int]]) -> Chunk | None:
        """The smallest chunk of these kinds that has so many bytes; of equal ones that of the lowest address."""
        found: list[tuple[int, int]] = []
        for kind in kinds:
            sizes = self._sizes.get(kind, [])
            found += sizes[(at := bisect_left(sizes, (size, 0))) : at + 1]
        return self._by_start[min(found)[1]] if found else None

    def add(self, chunk: Chunk) -> None:
        """Coalesce it with its neighbours where they may."""
        before, behind = self._by_end.get(chunk.start), self._by_start.get(chunk.end)
        for other in (before, behind):
            if other and (self._mix or other.streams == chunk.streams):
                self.remove(other)
                start = min(chunk.start, other.start)
                chunk = Chunk(start, chunk.size + other.size, chunk.streams | other.streams)
        self._by_start[chunk.start] = self._by_end[chunk.end] = chunk
        insort(self._sizes.setdefault(chunk.streams, []), (chunk.size, chunk.start))
        self.bytes += chunk.size

    def remove(self, chunk: Chunk) -> None:
        """Take one of them away."""
        del self._by_start[chunk.start], self._by_end[chunk.end]
        sizes = self._sizes[chunk.streams]
        del sizes[bisect_left(sizes, (chunk.size, chunk.start))]
        if not sizes:
            del self._sizes[chunk.streams]
        self.bytes -= chunk.size

    def synchronise(self) -> None:
        """SyncAndCoalesce: all become synchronised. Costs as much as adding each that was not."""
        starts = [start for kind, sizes in self._sizes.items() if kind for _, start in sizes]
        for start in starts:
            chunk = self._by_start[start]
            self.remove(chunk)
            self.add(chunk._replace(streams=SYNCHRONISED))
