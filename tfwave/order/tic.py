"""TIC: timing-independent communication scheduling (TicTac section 4.2, Algorithm 2)."""

import math
from collections.abc import Iterable, Sequence

from tfwave.cost.table import Costs
from tfwave.graph.transfer import Transfer
from tfwave.graph.view import GraphView
from tfwave.order.baselines import place
from tfwave.order.deps import Dependencies, bits, find_dependencies
from tfwave.order.order import Order, Ranked


def tic(view: GraphView, transfers: Sequence[Transfer], costs: Costs) -> Order:
    """Order by the impending communication load M+, 1 for a transfer and 0 for an op; costs are not used.

    M+ is the least number of transfers that an op with more than one waits for, over the ops that wait for
    this one; +inf if there is none. It is the priority. Equal priorities keep the stated tie rule.

    Raises:
        GraphError: a cycle, or transfers into more than one task.
    """
    found = find_dependencies(view, transfers)
    return tuple(Ranked(found.transfers[i], impending) for i, impending in _in_turn(found))


def tic_sequence(found: Dependencies) -> list[int]:
    """The numbers of the transfers in TIC's order."""
    return [i for i, _ in _in_turn(found)]


def _in_turn(found: Dependencies) -> list[tuple[int, float]]:
    impending = _impending_loads(found.classes, len(found.transfers))
    urgency = sorted(range(len(impending)), key=impending.__getitem__)
    return [(i, impending[i]) for i in place(urgency, found.blockers)]


def _impending_loads(classes: Iterable[int], count: int) -> list[float]:
    """M+ of each transfer: walk the sets from small to large until each transfer was met."""
    impending = [math.inf] * count
    missing = (1 << count) - 1
    for needs in sorted(classes, key=int.bit_count):
        if needs.bit_count() < 2:
            continue
        for i in bits(needs & missing):
            impending[i] = float(needs.bit_count())
        missing &= ~needs
        if not missing:
            break
    return impending
