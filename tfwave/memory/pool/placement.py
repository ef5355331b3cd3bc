"""Where the bytes of a step lie, decided before it runs: each life as low as there is room as long as it lasts.

Lives come by one of three greedy orders, and the one that needs the fewest bytes is taken.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tfwave.memory.pool.lives import Life


@dataclass(frozen=True)
class Placed:
    """Where lives lie.

    Attributes:
        spans: of each life, by its number: its first byte, and the one behind its last; it may have got more than
            it asked for.
        size: bytes of the pool.
        pieces: where a piece of the pool begins that does not coalesce with the one before it, ascending.
    """

    spans: tuple[tuple[int, int], ...]
    size: int
    pieces: tuple[int, ...] = (0,)


_ORDERS: tuple[Callable[[Life], tuple[int, ...]], ...] = (
    lambda life: (-life.bytes, life.born),
    lambda life: (-life.bytes * (life.dies - life.born), life.born),
    lambda life: (life.born - life.dies, -life.bytes),
)
"""The largest first; the most bytes times moments first; the longest first."""


def place_offline(lives: Sequence[Life]) -> Placed:
    """Place lives so that no two that last at one moment share a byte."""
    orders = (sorted(range(len(lives)), key=lambda number: key(lives[number])) for key in _ORDERS)
    return min((_in_order(lives, order) for order in orders), key=lambda placed: placed.size)


def _in_order(lives: Sequence[Life], order: Sequence[int]) -> Placed:
    born, dies, start, end = (np.zeros(len(lives), dtype=np.int64) for _ in range(4))
    for count, number in enumerate(order):
        life = lives[number]
        beside = np.flatnonzero((born[:count] < life.dies) & (life.born < dies[:count]))
        by_start = beside[np.argsort(start[beside], kind="stable")]
        # What of the lives beside it reaches furthest up to each: the gap in front of the next begins there.
        reach = np.concatenate(([0], np.maximum.accumulate(end[by_start])))
        gaps = start[by_start] - reach[:-1] >= life.bytes
        found = int(reach[np.argmax(gaps)] if gaps.any() else reach[-1])
        born[count], dies[count], start[count], end[count] = life.born, life.dies, found, found + life.bytes
    spans = [(0, 0)] * len(lives)
    for count, number in enumerate(order):
        spans[number] = int(start[count]), int(end[count])
    return Placed(tuple(spans), int(end.max(initial=0)))
