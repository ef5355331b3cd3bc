"""Ranks for the priority discipline: of what is ready, the most urgent goes next, in all channels at once."""

from collections.abc import Sequence

from tfwave.cost.table import Costs
from tfwave.cost.ticks import ticks_of
from tfwave.graph.names import Channel
from tfwave.graph.transfer import Transfer
from tfwave.graph.view import RECV_OPS, GraphView
from tfwave.order.deps import in_tie_order
from tfwave.order.order import Order, Ranked


def by_urgency(view: GraphView, transfers: Sequence[Transfer], costs: Costs) -> dict[Channel, Order]:
    """Rank transfers of all channels and directions by what has yet to be computed once each has arrived.

    That is the longest path to the end of the graph through ops of all devices, each at its cost: the longer, the
    more urgent. Transfers on the path take no time: a link that is kept busy sends them all as soon in any order,
    and what an order saves is the compute that ends up behind the last of them. A layer's bias is as urgent as its
    weights, and more so than the next layer's. Equal ones keep the stated tie rule: level of the first consumer,
    then `Transfer.sort_key`. Transfers may wait for others; a transfer is ranked after all that it waits for.

    The priority is the rank among all transfers, so that channels which share a link can be compared. Channels
    are sorted by name.

    Raises:
        MissingCost: the table does not know a cost; names it.
        CostError: a cost is negative, infinite or not a number; names it.
        GraphError: a cycle that is not a while loop.
    """
    ordered = in_tie_order(view, transfers)
    left = _compute_left(view, ordered, costs)
    ranked = sorted(ordered, key=lambda t: -left[t.recv])
    turns: dict[Channel, list[Ranked]] = {channel: [] for channel in sorted({t.channel for t in ordered})}
    for rank, transfer in enumerate(ranked):
        turns[transfer.channel].append(Ranked(transfer, float(rank)))
    return {channel: tuple(turn) for channel, turn in turns.items()}


def _compute_left(view: GraphView, transfers: Sequence[Transfer], costs: Costs) -> list[int]:
    """Per node: ticks of all ops on the longest path from its start to the end of the graph."""
    ops = [node for node, op in enumerate(view.ops) if op not in RECV_OPS]
    own = dict(zip(ops, ticks_of(view, ops, transfers, costs).ops, strict=True))
    left = [0] * len(view)
    for node in reversed(view.topological_order):
        left[node] += own.get(node, 0)
        for fanin in view.forward_fanins(node):
            left[fanin] = max(left[fanin], left[node])
    return left
