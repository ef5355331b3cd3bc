"""TAC: timing-aware communication scheduling (TicTac section 4.3, Algorithms 1 and 3, with Eq. 6).

A goes before B iff min(P_B, M_A) < min(P_A, M_B), or these are equal and A has the smaller M+. Algorithm 3
prints this with its sign inverted; Eq. 6 and its derivation hold. The relation is not transitive, so nothing
is sorted by it: each turn scans the candidates in the fixed order of the tie rule for one that is before the
best so far.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from tfwave.cost.table import Costs
from tfwave.cost.ticks import NEVER, ticks_of
from tfwave.graph.transfer import Transfer
from tfwave.graph.view import GraphView
from tfwave.order.deps import bits, find_dependencies, membership
from tfwave.order.order import Order, ranked_in_turn


def tac(view: GraphView, transfers: Sequence[Transfer], costs: Costs) -> Order:
    """Order the transfers into one task by what each lets it compute; the priority is the rank.

    The devices of a task count as one: they share its network card, and ops of one may wait for another's.
    A transfer becomes a candidate when the transfers that it depends on were ordered. Ties keep the stated
    rule: level of the first consumer, then `Transfer.sort_key`.

    Raises:
        MissingCost: the table does not know a cost; names it.
        CostError: a cost is negative, infinite or not a number; names it.
        GraphError: a cycle, or transfers into more than one task.
    """
    found = find_dependencies(view, transfers)
    ticks = ticks_of(view, found.ops, found.transfers, costs)
    work = found.work(ticks.ops)
    chosen = tac_sequence(work, ticks.transfers, found.blockers)
    return ranked_in_turn([found.transfers[i] for i in chosen])


def tac_sequence(work: Mapping[int, int], durations: Sequence[int], blockers: Sequence[int]) -> list[int]:
    """The order of the transfers 0..n-1, given in the order of the tie rule.

    `work` maps each set of transfers (bit i: transfer i) to the ticks of all ops that wait for exactly it;
    `durations` are the transfers' ticks; `blockers` the sets that must be ordered before each.
    """
    properties = _Properties(work, durations)
    left = list(range(len(durations)))
    outstanding = (1 << len(durations)) - 1
    some_wait = any(blockers)
    chosen: list[int] = []
    while left:
        candidates = [i for i in left if not blockers[i] & outstanding] if some_wait else left
        chosen.append(_least(candidates, durations, properties, outstanding))
        left.remove(chosen[-1])
        outstanding &= ~(1 << chosen[-1])
        properties.remove(chosen[-1])
    return chosen


def _least(
    candidates: Sequence[int], durations: Sequence[int], properties: "_Properties", outstanding: int
) -> int:
    """The candidate that none after it in the scan is before; M+ is worked out only if a tie asks for it."""
    loads = properties.compute_loads()
    impending: Sequence[int] | None = None
    best = candidates[0]
    for i in candidates[1:]:
        load_best, load_i = loads[best], loads[i]
        gain_best = load_best if load_best < durations[i] else durations[i]
        gain_i = load_i if load_i < durations[best] else durations[best]
        if gain_best < gain_i:
            best = i
        elif gain_best == gain_i:
            impending = impending or properties.impending_loads(outstanding)
            if impending[i] < impending[best]:
                best = i
    return best


class _Properties:
    """UpdateProperties of Algorithm 1, kept up to date as transfers leave the outstanding set.

    Ops with equal sets are one class. Of each class: how many of its transfers are outstanding, the sum of
    their durations (op.M) and the sum of their numbers, which is the last one's number when one is left.
    """

    def __init__(self, work: Mapping[int, int], durations: Sequence[int]) -> None:
        self._durations = durations
        self._sets = sorted(work)
        self._work = np.array([work[s] for s in self._sets], dtype=np.int64)
        member = np.ascontiguousarray(membership(self._sets, len(durations)).T)
        self._classes_of = [np.flatnonzero(row) for row in member]
        self._count = member.sum(axis=0, dtype=np.int64)
        self._load = np.zeros(len(self._sets), dtype=np.int64)
        self._last = np.zeros(len(self._sets), dtype=np.int64)
        for i, classes in enumerate(self._classes_of):
            self._load[classes] += durations[i]
            self._last[classes] += i
        self._directly_dependent = np.zeros(len(durations), dtype=np.int64)
        self._count_direct(np.arange(len(self._sets)))

    def compute_loads(self) -> list[int]:
        """P of each transfer: ticks of the ops for which it is the only outstanding one."""
        return self._directly_dependent.tolist()

    def impending_loads(self, outstanding: int) -> list[int]:
        """M+ of each transfer: walk the classes by M, from small, until each outstanding one was met."""
        impending = [NEVER] * len(self._durations)
        several = np.flatnonzero(self._count > 1)
        ascending = several[np.argsort(self._load[several])]
        classes: list[int] = ascending.tolist()
        loads: list[int] = self._load[ascending].tolist()
        missing = outstanding
        for c, load in zip(classes, loads, strict=True):
            met = self._sets[c] & missing
            if met:
                for i in bits(met):
                    impending[i] = load
                missing ^= met
                if not missing:
                    break
        return impending

    def remove(self, transfer: int) -> None:
        """Take a transfer out of the outstanding set."""
        classes = self._classes_of[transfer]
        self._count[classes] -= 1
        self._load[classes] -= self._durations[transfer]
        self._last[classes] -= transfer
        self._count_direct(classes)

    def _count_direct(self, classes: np.ndarray) -> None:
        single = classes[self._count[classes] == 1]
        np.add.at(self._directly_dependent, self._last[single], self._work[single])
