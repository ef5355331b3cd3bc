"""How a fitted step runs: ops in their turns, what runs again before them, and copies beside them."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random

from tfwave.offload.layout import Candidate, Layout, Method
from tfwave.offload.moves import Move
from tfwave.offload.threads import Run, Task, Work
from tfwave.offload.turns import KeptTurns
from tfwave.rewrite.fitted.beside import awaited


@dataclass(frozen=True)
class FittedRun:
    """What runs when: the ops by number, and what brings tensors out and back behind them.

    Attributes:
        work: the ops, and behind them what brings tensors out and back.
        run: of all.
        out: by the number of a move: what copies it out.
        back: likewise: what copies it back, or makes it again.
    """

    work: Work
    run: Run
    out: dict[int, int]
    back: dict[int, int]

    def raced(self, chance: Random, most: float) -> "FittedRun":
        """As `Work.raced`."""
        return replace(self, run=self.work.raced(chance, most))


def fitted_run(layout: Layout, moves: Sequence[Move], turns: KeptTurns) -> FittedRun:
    """Of a step whose tensors move so, and whose ops keep these turns."""
    step = layout.step
    made = _Made(layout, turns, [set(op.after) for op in step.ops])
    made.keep_turns()
    for move in moves:
        made.leave(move)
    for move in sorted(moves, key=lambda move: (move.back, move.number)):
        made.come(move)
    tasks = [*map(Task, (op.seconds for op in step.ops), made.after), *made.more]
    work = Work(tasks, step.lanes)
    return FittedRun(work, work.run(), made.out, made.back)


@dataclass
class _Made:
    layout: Layout
    turns: KeptTurns
    after: list[set[int]]
    """What each op waits for."""
    more: list[Task] = field(default_factory=list[Task])
    """Copies and chains, numbered behind the ops."""
    out: dict[int, int] = field(default_factory=dict[int, int])
    back: dict[int, int] = field(default_factory=dict[int, int])
    leaving: dict[int, set[int]] = field(default_factory=lambda: defaultdict[int, set[int]](set))
    """By the number of an op that keeps its turn: the copies out for which it waits."""

    def keep_turns(self) -> None:
        for index, place in enumerate(self.turns.places):
            self.after[self.layout.order[place]] |= self._awaited(index)

    def leave(self, move: Move) -> None:
        if move.method is Method.OFFLOAD:
            out = self._copy(self.layout.candidates[move.number], {self.layout.order[move.left]})
            index = self._next(move.gone)
            self._let_wait(index, out)
            self.leaving[index].add(out)
            self.out[move.number] = out

    def come(self, move: Move) -> None:
        candidate = self.layout.candidates[move.number]
        index = self._next(move.back)
        awaited = self._awaited(index) | self.leaving[index]
        if move.method is Method.OFFLOAD:
            there = self._copy(candidate, {self.out[move.number]} | awaited)
        else:
            there = self._add(self._chain(candidate, awaited))
            self._let_wait(index, there)
        self.back[move.number] = there
        for use in self.layout.late_uses(candidate):
            self.after[use].add(there)

    def _copy(self, candidate: Candidate, after: set[int]) -> int:
        return self._add(Task(self.layout.step.lanes.copy_seconds(candidate.bytes), after, copies=True))

    def _chain(self, candidate: Candidate, awaited: set[int]) -> Task:
        chain = candidate.chain
        assert chain is not None  # else it would not be made again
        needed = {self.layout.number_of[buffer] for buffer in chain.needs}
        return Task(chain.seconds, {self.back[n] for n in needed if n in self.back} | awaited)

    def _add(self, task: Task) -> int:
        self.more.append(task)
        return len(self.after) + len(self.more) - 1

    def _next(self, place: int) -> int:
        """The first op from a place on that keeps its turn."""
        return bisect_left(self.turns.places, place)

    def _let_wait(self, index: int, number: int) -> None:
        if index < len(self.turns.places):
            self.after[self.layout.order[self.turns.places[index]]].add(number)

    def _awaited(self, index: int) -> set[int]:
        return {self.layout.order[self.turns.places[i]] for i in awaited(self.turns.beside, index)}
