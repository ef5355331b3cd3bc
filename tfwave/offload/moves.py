"""A choice as a program: when each tensor goes and comes.

Reckoned as if ops ran one after the other on a lane of their own, and copies in their turn on one beside it.

1. A copy out begins when the last op of the forward pass that uses the tensor is done. The tensor's bytes are free
   once it is out: an op for which there is no room else waits for that.
2. A copy back begins before an op some ops ahead of the first that wants it, and has its bytes from then on. Where
   there is room, up to 6 ops ahead of it.
3. What is made again is made before the op that wants it, or before what else is made of it.
"""

from collections import defaultdict, deque
from dataclasses import dataclass, replace

from tfwave.offload.choice import Choice
from tfwave.offload.layout import Bytes, Method

MOST_AHEAD = 6
"""A copy back begins no more ops ahead: 20 cost a ResNet-like step 13 % of its peak."""


@dataclass(frozen=True)
class Move:
    """A tensor that is away for a while; places are those of ops.

    Attributes:
        number: of its candidate.
        method: how it comes back.
        left: the last op of the forward pass that uses it.
        gone: the first op for which its bytes are free.
        back: the op before which it is made again, or its copy back begins.
    """

    number: int
    method: Method
    left: int
    gone: int
    back: int


def moves_of(choice: Choice, limit: int) -> tuple[Move, ...]:
    """Of a choice that keeps to a limit: its tensors that are really away, in the order in which they were made."""
    return _Run(choice, limit).moves()


class _Run:
    def __init__(self, choice: Choice, limit: int) -> None:
        self._choice, self._layout, self._limit = choice, choice.layout, limit
        self._moves = {move.number: move for move in _away(choice)}
        self._held: Bytes = choice.held.copy()
        self._fetch_early()
        self._pending: deque[tuple[int, float]] = deque()
        self._outside = 0
        self._compute = self._copies = 0.0
        self._there: dict[int, float] = {}
        """When what is copied back is there, by buffer."""

    def moves(self) -> tuple[Move, ...]:
        leaving, coming = _by_place(self._moves, "left"), _by_place(self._moves, "back")
        for place, op in enumerate(self._layout.order):
            self._make_room(place, coming[place])
            for number in coming[place]:
                self._come(number)
            self._wait_for(self._layout.step.used[op])
            self._compute += self._layout.step.ops[op].seconds
            for number in leaving[place]:
                self._leave(number)
        return tuple(self._moves[number] for number in sorted(self._moves))

    def _fetch_early(self) -> None:
        """Case 2: as far ahead as there is room."""
        busy = [place for place, op in enumerate(self._layout.order) if self._layout.step.used[op]]
        index = {place: i for i, place in enumerate(busy)}
        for number, move in sorted(self._moves.items(), key=lambda item: (item[1].back, item[0])):
            if move.method != Method.OFFLOAD:
                continue
            candidate = self._layout.candidates[number]
            wanted = min(candidate.wanted, move.back if move.back < candidate.fetched else candidate.wanted)
            for place in busy[max(0, index[wanted] - MOST_AHEAD) : index[wanted]]:
                early = self._held[place : move.back]
                if move.left + 1 < place < move.back and int(early.max()) + candidate.bytes <= self._limit:
                    early += candidate.bytes
                    self._moves[number] = replace(move, back=place)
                    break

    def _make_room(self, place: int, coming: list[int]) -> None:
        """Case 1; what comes back has left before."""
        while self._pending:
            number, out = self._pending[0]
            fits = int(self._held[place]) + self._outside <= self._limit
            if out > self._compute and fits and not any(waiting in coming for waiting, _ in self._pending):
                return
            self._compute = max(self._compute, out)
            self._pending.popleft()
            self._outside -= self._layout.candidates[number].bytes
            self._moves[number] = replace(self._moves[number], gone=place)

    def _come(self, number: int) -> None:
        candidate = self._layout.candidates[number]
        if self._moves[number].method == Method.OFFLOAD:
            self._copies = max(self._copies, self._compute) + self._layout.step.lanes.copy_seconds(
                candidate.bytes
            )
            self._there[candidate.buffer] = self._copies
        elif candidate.chain:
            self._wait_for(candidate.chain.needs)
            self._compute += candidate.chain.seconds

    def _leave(self, number: int) -> None:
        if self._moves[number].method == Method.OFFLOAD:
            size = self._layout.candidates[number].bytes
            self._pending.append((number, self._copied(size)))
            self._outside += size

    def _copied(self, size: int) -> float:
        """When the next copy is done, of so many bytes."""
        self._copies = max(self._copies, self._compute) + self._layout.step.lanes.copy_seconds(size)
        return self._copies

    def _wait_for(self, buffers: tuple[int, ...]) -> None:
        for buffer in buffers:
            self._compute = max(self._compute, self._there.get(buffer, 0.0))


def _away(choice: Choice) -> list[Move]:
    """What is really away."""
    return [
        Move(number, Method(method), candidate.left, candidate.left + 1, back)
        for number, (candidate, method, back) in enumerate(
            zip(choice.layout.candidates, choice.methods.tolist(), choice.returns.tolist(), strict=True)
        )
        if method != Method.KEEP and back > candidate.left + 1
    ]


def _by_place(moves: dict[int, Move], which: str) -> defaultdict[int, list[int]]:
    """What is made again needs what was made before it: in the order in which it was made at first."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    for number in sorted(moves):
        found[getattr(moves[number], which)].append(number)
    return found
