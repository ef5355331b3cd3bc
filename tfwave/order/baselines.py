"""Orders to compare with: fifo, reverse and random. Their priorities are ranks."""

import random
from collections.abc import Sequence

from tfwave.cost.table import Costs
from tfwave.graph.transfer import Transfer
from tfwave.graph.view import GraphView
from tfwave.order.deps import Dependencies, find_dependencies
from tfwave.order.order import Order, Policy, ranked_in_turn


def fifo(view: GraphView, transfers: Sequence[Transfer], costs: Costs) -> Order:
    """Layer order: by the longest-path level of the first consumer, then `Transfer.sort_key`; no costs used.

    Raises:
        GraphError: a cycle, or transfers into more than one task.
    """
    found = find_dependencies(view, transfers)
    return _in_order(found, range(len(found.transfers)))


def reverse(view: GraphView, transfers: Sequence[Transfer], costs: Costs) -> Order:
    """Fifo backwards: what is needed last goes first, but for transfers that wait for others.

    Raises:
        GraphError: a cycle, or transfers into more than one task.
    """
    found = find_dependencies(view, transfers)
    return _in_order(found, range(len(found.transfers) - 1, -1, -1))


def random_order(seed: int) -> Policy:
    """A policy that shuffles; the same seed and transfers give the same order, however nodes are numbered."""

    def shuffled(view: GraphView, transfers: Sequence[Transfer], costs: Costs) -> Order:
        found = find_dependencies(view, transfers)
        preference = sorted(range(len(found.transfers)), key=lambda i: found.transfers[i].sort_key)
        random.Random(seed).shuffle(preference)  # noqa: S311 - a baseline, not a secret
        return _in_order(found, preference)

    return shuffled


def place(preference: Sequence[int], blockers: Sequence[int]) -> list[int]:
    """The preferred sequence, mended so that each transfer comes after its blockers.

    At each turn the first in preference whose blockers are all placed goes next. Blockers form no cycle,
    because the graph has none.
    """
    waiting = list(preference)
    placed: list[int] = []
    outstanding = (1 << len(blockers)) - 1
    while waiting:
        turn = next(at for at, i in enumerate(waiting) if not blockers[i] & outstanding)
        placed.append(waiting.pop(turn))
        outstanding &= ~(1 << placed[-1])
    return placed


def _in_order(found: Dependencies, preference: Sequence[int]) -> Order:
    return ranked_in_turn([found.transfers[i] for i in place(preference, found.blockers)])
