"""Note a plan's order on the graph."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from tfwave.errors import PassError, PlanError
from tfwave.graph.names import TransferKey, parse_input
from tfwave.graph.ops import OpTable
from tfwave.graph.rewriter import GraphRewriter
from tfwave.graph.transfer import find_transfers
from tfwave.graph.view import RECV_OPS, GraphView
from tfwave.passes.base import GraphPass
from tfwave.plan.annotation import NOTE, annotated_orders, rank_note
from tfwave.plan.plan import ChannelOrder, Plan

_WHERE = {
    True: "are of tensors that are only fetched, such as {}, and stay unordered: no node here receives them",
    False: "are inside functions or branches, such as {}, and stay unordered here: after the pass 'cut' they "
    "can be ordered",
}
"""Of transfers that are left out of a graph that is cut, and of one that is not."""


@dataclass(frozen=True)
class RecvPriority(GraphPass):
    """Write the rank of each planned transfer on its node, where the passes that enforce an order find it.

    Case 1: a graph cut into partitions. The note is on the `_Recv`. Only the channels into the devices of this
    graph are noted, so that one worker's partition takes the plan of a whole job.
    Case 2: a graph not cut yet. The note is on the node whose output will cross. Transfers inside functions and
    branches show only after the cut: they stay without a note, and the others close up.

    What crosses only because it is fetched is TensorFlow's to send when it runs the graph, not the graph's: in a
    graph that is cut it stays without a note, too.

    The plan is given, or made of the graph as it comes into this pass, by `policy`: ``tic`` needs no times, ``tac``
    those of a capture bundle or of ``--costs``. A graph that bears an order already keeps it then. Changes nothing
    that TensorFlow looks at. A plan of another graph is refused.

    Raises:
        PassError: neither a plan nor a policy.
    """

    plan: Plan | None = None
    policy: str = ""

    def __post_init__(self) -> None:
        """Refuse what has nothing to note."""
        if self.plan is None and not self.policy:
            raise PassError(
                "the pass recv_priority needs a plan: give --plan FILE, as `tfwave plan` writes it, or name a "
                "policy, recv_priority{policy=tic}; in Python parse_pipeline(text, plan)"
            )

    def run(self, graph: GraphRewriter) -> None:
        """Note the ranks."""
        if self.plan is None:
            _keep_order(graph, str(self))
            return
        is_cut = any(op in RECV_OPS for op in graph.view.ops)
        bearers = _receivers(graph.view) if is_cut else _sources(graph.view, self.plan)
        if not (is_cut or bearers):
            raise PlanError("the plan was made for another graph: none of its transfers is in this one")
        left_out = _fetched(graph, self.plan, bearers) if is_cut else _hidden(graph, self.plan, bearers)
        ranks: dict[str, list[tuple[int, TransferKey]]] = defaultdict(list)
        for order in _orders_into(self.plan, bearers):
            keys = [transfer.key for transfer in order.transfers if transfer.key not in left_out]
            for rank, key in enumerate(keys):
                ranks[_bearer(bearers, key)].append((rank, key))
        for name in sorted(ranks):
            graph.note(name, NOTE, rank_note(ranks[name]))
        if left_out:
            graph.remark(
                f"{len(left_out)} of {len(self.plan.transfers)} transfers {_WHERE[is_cut].format(min(left_out))}"
            )

    def ensures(self, view: GraphView) -> None:
        """Each rank of a channel is noted once."""
        for channel, entries in annotated_orders(view).items():
            if [entry.rank for entry in entries] != list(range(len(entries))):
                raise PlanError(
                    f"the graph bears the notes of another plan on {channel}: strip it before it takes a new one"
                )


def _keep_order(graph: GraphRewriter, text: str) -> None:
    if not annotated_orders(graph.view):
        raise PassError(f"{text} has no plan yet: parse_pipeline('{text}') makes it of the graph")
    graph.remark("the graph bears an order already, and keeps it: strip it first to have it planned anew")


def _receivers(view: GraphView) -> dict[TransferKey, str]:
    return {transfer.key: transfer.node for transfer in find_transfers(view).data}


def _sources(view: GraphView, plan: Plan) -> dict[TransferKey, str]:
    there = set(view.names)
    return {t.key: t.key.node for t in plan.transfers if t.key.node in there}


def _fetched(graph: GraphRewriter, plan: Plan, bearers: Mapping[TransferKey, str]) -> frozenset[TransferKey]:
    """The planned transfers of tensors that go to the client alone."""
    fetched = {parse_input(text) for text in graph.item.fetches if ":" in text}
    return frozenset(
        t.key for t in plan.transfers if t.key not in bearers and (t.key.node, t.key.port) in fetched
    )


def _hidden(graph: GraphRewriter, plan: Plan, bearers: Mapping[TransferKey, str]) -> frozenset[TransferKey]:
    """The planned transfers of nodes that TensorFlow makes only when it inlines or lowers a node of the graph."""
    table = OpTable.of(graph.item.graph)
    return frozenset(
        t.key for t in plan.transfers if t.key not in bearers and _is_expanded(graph, t.key.node, table)
    )


def _is_expanded(graph: GraphRewriter, name: str, table: OpTable) -> bool:
    """Does the name begin with that of a node that calls a function?"""
    parts = name.split("/")
    callers = ("/".join(parts[:end]) for end in range(len(parts) - 1, 0, -1))
    return any(graph.has_node(caller) and table.calls_functions(graph.node(caller)) for caller in callers)


def _orders_into(plan: Plan, bearers: Mapping[TransferKey, str]) -> list[ChannelOrder]:
    """The planned orders that concern the graph; refuses a plan that misses one of their transfers."""
    destinations = {key.channel.destination for key in bearers}
    orders = [order for order in plan.orders if order.channel.destination in destinations]
    planned = {t.key for order in orders for t in order.transfers}
    channels = {order.channel for order in orders}
    unplanned = min((k for k in bearers if k.channel in channels and k not in planned), default=None)
    if unplanned is not None:
        raise PlanError(
            f"the plan was made for another graph: this one has the transfer {unplanned}, which it does not order"
        )
    return orders


def _bearer(bearers: Mapping[TransferKey, str], key: TransferKey) -> str:
    found = bearers.get(key)
    if found is None:
        raise PlanError(
            f"the plan was made for another graph: it orders the transfer {key}, which this one does not have"
        )
    return found
