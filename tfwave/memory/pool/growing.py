"""Pools that place each request when it comes, and grow where they have no room.

All take the smallest free piece that is large enough, of equal ones that of the lowest address. They differ in
how they grow, and in how much of a piece they give.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from tfwave.memory.pool.chunks import Chunk, FreeChunks
from tfwave.memory.pool.lives import Life
from tfwave.memory.pool.placement import Placed
from tfwave.memory.pool.pools import (
    MOST_PADDING,
    whole_pieces,
)

_FIRST_REGION = 2 << 20
_CNMEM_PIECE = 512
_SOON = 6
"""Moments: three ops begin and end."""


class Mobility(StrEnum):
    """What GTBM groups lives by (Dymem, thesis 4.1.3.2)."""

    MOVABLE = "movable"
    """It is free after at most three ops."""
    TEMPORARY = "temporary"
    """It waits, as at a fork or a join."""
    RECLAIMED = "reclaimed"
    """It is held over the turn from the forward to the backward pass: it was not offloaded."""


def events(lives: Sequence[Life]) -> Iterator[tuple[int, bool]]:
    """The numbers of the lives by moment, with whether they begin; in one moment what ends comes first."""
    moments = [(life.born, 1, number) for number, life in enumerate(lives)]
    moments += [(life.dies, 0, number) for number, life in enumerate(lives)]
    return ((number, kind == 1) for _, kind, number in sorted(moments))


def best_fit(lives: Sequence[Life]) -> Placed:
    """A pool in one piece that grows by what is missing at its end, and gives what is asked for."""
    return _played(lives, _Line())


def bfc(lives: Sequence[Life]) -> Placed:
    """TensorFlow's allocator as it is (`BFCAllocator::Extend` and `FindChunkPtr`), on a CPU.

    It grows by regions that never merge: the first of 2 MiB, each twice as large as the last, or as often twice as
    it takes. A piece that has less than twice what was asked for, and less than 128 MiB beyond it, is given whole.
    """
    return _played(lives, _Regions())


def bfc_in_one_region(lives: Sequence[Life]) -> Placed:
    """The same in one region, as `tfwave.colocate.limit_memory` has it, of just the bytes that it takes."""
    return _played(lives, _Padded())


def cnmem(lives: Sequence[Life]) -> Placed:
    """NVIDIA's CNMeM from an empty pool, as vDNN used it: it grows by just what is asked for.

    What it got at different times never merges. Pieces are multiples of 512 bytes.
    """
    return _played(lives, _Line(apart=True, piece=_CNMEM_PIECE))


def gtbm(lives: Sequence[Life]) -> Placed:
    """Group tensors by mobility (Dymem, thesis 4.1.3), with the printed Algorithm 4 mended.

    1. Movable ones fill the main space from its low end on, temporary ones from its high end on; it is as large as
       both were at one moment at most. Reclaimed ones lie in a space of their own.
    2. The printed rule tests the number of references and the kind of layer; neither says whether a tensor is kept
       or waits for its join, which its life does. So `Mobility` is told by lives.
    """
    return _ByMobility(lives).placed()


def mobilities(lives: Sequence[Life]) -> list[Mobility]:
    """Case 2; the turn is where the most bytes are held."""
    turn = _turn(lives)
    return [_mobility(life, turn) for life in lives]


def _mobility(life: Life, turn: int) -> Mobility:
    if life.dies - life.born <= _SOON:
        return Mobility.MOVABLE
    return Mobility.RECLAIMED if life.born + _SOON < turn < life.dies - _SOON else Mobility.TEMPORARY


def _turn(lives: Sequence[Life]) -> int:
    held = most = turn = 0
    for number, begins in events(lives):
        held += lives[number].bytes if begins else -lives[number].bytes
        if held > most:
            most, turn = held, lives[number].born
    return turn


@dataclass
class _Line:
    """Free pieces, and where the pool ends; `apart`: what it grows by never merges with what was there."""

    apart: bool = False
    piece: int = 1
    end: int = 0
    pieces: list[int] = field(default_factory=lambda: [0])
    free: list[FreeChunks] = field(default_factory=lambda: [FreeChunks(mix=True)])
    """One for each piece of the pool."""
    within: dict[int, int] = field(default_factory=dict[int, int])
    """By the begin of what is given: the piece of the pool in which it lies."""

    def take(self, size: int) -> tuple[int, int]:
        size = whole_pieces(size, self.piece)
        found = self._smallest(size)
        if found is None:
            self.grow(size)
            return self.take(size)
        number, chunk = found
        self.free[number].remove(chunk)
        given = self.given(size, chunk)
        if given < chunk.size:
            self.free[number].add(Chunk(chunk.start + given, chunk.size - given))
        self.within[chunk.start] = number
        return chunk.start, chunk.start + given

    def _smallest(self, size: int) -> tuple[int, Chunk] | None:
        chunks = ((number, free.best(size, free.kinds)) for number, free in enumerate(self.free))
        found = [(number, chunk) for number, chunk in chunks if chunk is not None]
        return min(found, key=lambda each: (each[1].size, each[1].start), default=None)

    def give(self, span: tuple[int, int]) -> None:
        start, end = span
        self.free[self.within.pop(start)].add(Chunk(start, end - start))

    def grow(self, size: int) -> None:
        """By what is missing: what is free at the end counts, where it merges."""
        if self.apart and self.end:
            self.pieces.append(self.end)
            self.free.append(FreeChunks(mix=True))
        missing = size if self.apart else size - self.free[-1].ending_at(self.end)
        self.free[-1].add(Chunk(self.end, missing))
        self.end += missing

    def given(self, size: int, chunk: Chunk) -> int:
        return min(size, chunk.size)

    @property
    def used(self) -> int:
        """The address behind the last byte that is given."""
        return self.end - self.free[-1].ending_at(self.end)


class _Padded(_Line):
    """Gives some pieces whole."""

    def given(self, size: int, chunk: Chunk) -> int:
        return size if chunk.size >= 2 * size or chunk.size - size >= MOST_PADDING else chunk.size


class _Regions(_Padded):
    """As `bfc` says."""

    _next = _FIRST_REGION

    def grow(self, size: int) -> None:
        doubled = size > self._next
        while size > self._next:
            self._next *= 2
        if self.end:
            self.pieces.append(self.end)
            self.free.append(FreeChunks(mix=True))
        self.free[-1].add(Chunk(self.end, self._next))
        self.end += self._next
        if not doubled:
            self._next *= 2


def _played(lives: Sequence[Life], line: _Line) -> Placed:
    spans = [(0, 0)] * len(lives)
    for number, begins in events(lives):
        if begins:
            spans[number] = line.take(lives[number].bytes)
        else:
            line.give(spans[number])
    return Placed(tuple(spans), line.end, tuple(line.pieces))


class _ByMobility:
    def __init__(self, lives: Sequence[Life]) -> None:
        self._lives = lives
        self._kinds = mobilities(lives)
        self._arenas = {kind: _Line() for kind in Mobility}
        self._spans = [(0, 0)] * len(lives)
        self._main = 0

    def placed(self) -> Placed:
        for number, begins in events(self._lives):
            arena = self._arenas[self._kinds[number]]
            if begins:
                self._spans[number] = arena.take(self._lives[number].bytes)
            else:
                arena.give(self._spans[number])
            low, high = self._arenas[Mobility.MOVABLE], self._arenas[Mobility.TEMPORARY]
            self._main = max(self._main, low.used + high.used)
        own = self._arenas[Mobility.RECLAIMED].end
        pieces = (0, self._main) if own and self._main else (0,)
        return Placed(tuple(map(self._address, range(len(self._lives)))), self._main + own, pieces)

    def _address(self, number: int) -> tuple[int, int]:
        """In the whole pool: the main space, and behind it the reclaimed ones."""
        start, end = self._spans[number]
        match self._kinds[number]:
            case Mobility.MOVABLE:
                return start, end
            case Mobility.TEMPORARY:
                return self._main - end, self._main - start
            case Mobility.RECLAIMED:
                return self._main + start, self._main + end


Placing = Callable[[Sequence[Life]], Placed]
"""What finds a place for each of some lives."""
