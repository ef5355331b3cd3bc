"""Which ops of a fitted step keep their turn, and how many of them may run side by side."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from tfwave.offload.held import Held
from tfwave.offload.layout import Bytes, Layout, Method
from tfwave.offload.moves import Move
from tfwave.offload.step import Op

FREE_SHARE = 0.02
"""Of the peak: what all ops together that keep no turn may hold."""
MOST_BESIDE = 7
"""Eight ops at once are enough. With four a BERT-like step takes 7 % longer, five others less than 2 %."""
ROOM_BESIDE = 1.1
"""So many times as much as one op after the other holds may be held for it: more room saves less than 1 % more."""


@dataclass(frozen=True)
class KeptTurns:
    """Ops that begin in turn.

    Attributes:
        places: of these in the order, ascending.
        beside: of each: how many of them just before it may still run when it begins.
        peak: the most bytes that are held then, whichever of those is done first.
    """

    places: tuple[int, ...]
    beside: tuple[int, ...]
    peak: int


def kept_turns(layout: Layout, moves: Sequence[Move], held: Held, limit: int, most_beside: int) -> KeptTurns:
    """Ops run side by side as far as the limit allows, and a tenth above the peak of one after the other.

    But none goes on in a buffer before all that used it are done, also to make again what was away: it would find
    it read, and allocate.

    All keep their turn but those that hold the fewest bytes, 2 % of the peak in all: whenever these run, the peak
    is no more than that above. An op holds the buffers that it uses, and its scratch: one that comes late keeps
    what it reads, and one that comes early finds what it could go on in still read by others, and allocates.
    Ops of branches keep none: what waits for them is left out of a step that leaves the branch out.
    """
    own = [
        layout.step.ops[op].scratch + sum(layout.step.buffers[b].bytes for b in layout.step.used[op])
        for op in layout.order
    ]
    alone = int(held.during.max(initial=0))
    in_branch = np.array([layout.step.ops[op].in_branch for op in layout.order], dtype=bool)
    places = _moving(np.array(own, dtype=np.int64), alone)
    places = places[~in_branch[places]]
    most = _before_overwriting(layout, moves, places, most_beside)
    last, peak = _beside(held, places, most, min(limit, int(ROOM_BESIDE * alone)))
    numbers = np.arange(len(places))
    beside = numbers - np.searchsorted(last, numbers)
    return KeptTurns(tuple(places.tolist()), tuple(beside.tolist()), peak)


def _moving(own: Bytes, peak: int) -> Bytes:
    lightest = np.argsort(own, kind="stable")
    free = np.searchsorted(np.cumsum(own[lightest]), FREE_SHARE * peak, side="right")
    return np.sort(lightest[free:])


def _before_overwriting(layout: Layout, moves: Sequence[Move], places: Bytes, most_beside: int) -> list[int]:
    """Of each op the last that may begin before it is done, as far as others go on in buffers that it uses."""
    at: list[int] = places.tolist()
    index = {layout.order[place]: number for number, place in enumerate(at)}
    most = [number + most_beside for number in range(len(places))]
    again = _read_again(layout, moves, at)
    for number, buffer in enumerate(layout.step.buffers):
        kept = [use for use in buffer.uses if use in index]
        for use, writer in product({*kept, *again[number]}, {*buffer.writers[1:]}.intersection(kept)):
            begin, end = index[use], index[writer]
            if begin < end <= most[begin] and not _follows(layout.step.ops, writer, use):
                most[begin] = end - 1
    return most


def _read_again(layout: Layout, moves: Sequence[Move], at: Sequence[int]) -> dict[int, set[int]]:
    """By buffer: the ops that keep their turn, and before which others run again that use it."""
    found: dict[int, set[int]] = defaultdict(set)
    for move in moves:
        chain, index = layout.candidates[move.number].chain, bisect_left(at, move.back)
        if move.method is Method.RECOMPUTE and chain is not None and index < len(at):
            for buffer in {buffer for op in chain.ops for buffer in layout.step.used[op]}:
                found[buffer].add(layout.order[at[index]])
    return found


def _follows(ops: Sequence[Op], op: int, source: int) -> bool:
    """Does an op wait for another, by itself?"""
    stack, seen = [op], {op}
    while stack:
        before = {each for each in ops[stack.pop()].after if each >= source} - seen
        if source in before:
            return True
        seen |= before
        stack += before
    return False


def _beside(held: Held, places: Bytes, most: Sequence[int], limit: int) -> tuple[list[int], int]:
    """Of each op the last that may begin before it is done; and the most that is held.

    Until an op is done, all that is held during it is, and all that those take that may begin until then. `most`
    are the last by other rules.
    """
    taken = np.cumsum(held.taken)[places]
    leaving = np.diff(np.cumsum(held.leaving)[places], prepend=0)
    alone = held.during[places] + leaving - taken
    last, peak = list(range(len(places))), int(held.during.max(initial=0))
    end = len(places) - 1
    for index in reversed(range(len(places))):
        end = min(end, most[index])
        while end > index and alone[index] + taken[end] > limit:
            end -= 1
        if end > index:
            last[index], peak = end, max(peak, int(alone[index] + taken[end]))
    return last, peak
