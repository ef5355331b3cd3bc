"""The `search` policy: the best of the simple orders, improved by simulation."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

import numpy as np

from tfwave.cost.table import Costs
from tfwave.graph.transfer import Transfer
from tfwave.graph.view import GraphView
from tfwave.order.baselines import place
from tfwave.order.device_step import Step
from tfwave.order.floors import find_floors
from tfwave.order.insertion import Sequences
from tfwave.order.order import Order, Policy
from tfwave.order.problem import Problem, problem_of
from tfwave.order.tac import tac_sequence
from tfwave.order.tic import tic_sequence

BUDGET = 600_000_000
"""One order may take this effort. A unit is about 8 ns on a common machine of 2024, so this is some 5 s; it is
counted, not timed, so that the same input gives the same order on every machine."""

SLACK = 500
"""An order is gone on from that is at most one part in so many worse than the best so far."""

_MOVED = 3
"""In one round so many transfers are put elsewhere."""

_EFFORT_PER_INSERTION = 10_000
_EFFORT_PER_NODE = 150


def search(seed: int = 0) -> Policy:
    """A policy that starts from TAC, TIC and fifo and is never worse than the best of them in the model.

    Each round puts a few transfers elsewhere and goes on from the result if it is not much worse than the
    best so far. It ends when the makespan is at a floor (see `find_bounds`), which proves it optimal, when it has
    found nothing better for long, or when its `BUDGET` is spent. The same seed and input give the same order,
    however nodes are numbered; the priority is the rank.

    Raises (the policy):
        MissingCost: the table does not know a cost; names it.
        CostError: a cost is negative, infinite or not a number; names it.
        GraphError: a cycle, or transfers into more than one task.
    """

    def searched(view: GraphView, transfers: Sequence[Transfer], costs: Costs) -> Order:
        problem = problem_of(view, transfers, costs)
        if len(transfers) < 2:
            return problem.order(range(len(transfers)))
        floor = max(find_floors(view, problem.load).values())
        starts = [
            _Free.of(problem, s) if problem.free else _Waiting.of(view, problem, s) for s in _starts(problem)
        ]
        rng = Random(seed)  # noqa: S311 - a search, not a secret
        start = min(starts, key=lambda state: state.makespan)
        return problem.order(_improved(start, floor, rng, len(transfers)))

    return searched


def _starts(problem: Problem) -> list[list[int]]:
    blockers = problem.found.blockers
    work = {needs: ticks for needs, ticks in problem.work.items() if needs}
    return [
        tac_sequence(work, problem.durations, blockers),
        tic_sequence(problem.found),
        place(range(len(blockers)), blockers),
    ]


class _State(Protocol):
    @property
    def patience(self) -> int: ...
    @property
    def makespan(self) -> int: ...
    @property
    def effort(self) -> int: ...
    @property
    def order(self) -> list[int]: ...
    def varied(self, rng: Random) -> "_State": ...


def _improved(start: _State, floor: int, rng: Random, count: int) -> list[int]:
    best = now = start
    spent = idle = 0
    while best.makespan > floor and spent < BUDGET and idle < start.patience * count:
        found = now.varied(rng)
        spent += found.effort
        idle += 1
        if found.makespan < best.makespan:
            best, idle = found, 0
        if found.makespan <= best.makespan + rng.randrange(best.makespan // SLACK + 1):
            now = found
    return best.order


@dataclass(frozen=True)
class _Free:
    """Transfers that wait for nothing: each is put back where the makespan is least."""

    sequences: Sequences
    makespan: int
    patience: int = 12
    """Rounds per transfer that may pass without a better order before the search ends."""

    @classmethod
    def of(cls, problem: Problem, order: Sequence[int]) -> "_Free":
        sequences = Sequences(problem, order)
        return cls(sequences, sequences.makespan())

    @property
    def effort(self) -> int:
        return _MOVED * (_EFFORT_PER_INSERTION + self.sequences.effort)

    @property
    def order(self) -> list[int]:
        return self.sequences.order

    def varied(self, rng: Random) -> "_Free":
        sequences = self.sequences.fork()
        count = sequences.count
        moved = rng.sample(range(count), min(_MOVED, count))
        for transfer in moved:
            sequences.remove(transfer)
        makespan = 0
        for transfer in moved:
            makespans = sequences.makespans(transfer)
            best = np.flatnonzero(makespans == makespans.min())
            sequences.insert(transfer, int(best[rng.randrange(len(best))]))
            makespan = int(makespans.min())
        return _Free(sequences, makespan)


@dataclass(frozen=True)
class _Waiting:
    """Transfers that wait for ops or for each other: one is put anywhere, and the whole step simulated."""

    problem: Problem
    begin: Step
    order: list[int]
    makespan: int
    patience: int = 60
    """Rounds per transfer that may pass without a better order before the search ends."""

    @classmethod
    def of(cls, view: GraphView, problem: Problem, order: list[int]) -> "_Waiting":
        begin = Step(view, problem)
        return cls(problem, begin, order, begin.makespan_of(order))

    @property
    def effort(self) -> int:
        return _EFFORT_PER_INSERTION + _EFFORT_PER_NODE * self.begin.nodes

    def varied(self, rng: Random) -> "_Waiting":
        preference = self.order[:]
        for _ in range(rng.randint(1, _MOVED)):
            transfer = preference.pop(rng.randrange(len(preference)))
            preference.insert(rng.randrange(len(preference) + 1), transfer)
        order = place(preference, self.problem.found.blockers)
        return _Waiting(self.problem, self.begin, order, self.begin.makespan_of(order))
