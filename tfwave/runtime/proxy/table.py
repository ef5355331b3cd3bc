"""The installed plans, one for each function, and what they mean for one registered graph."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tfwave.graph.names import Channel, edge_source
from tfwave.plan.discipline import Discipline
from tfwave.plan.plan import ALL_FUNCTIONS, ChannelOrder, Plan
from tfwave.runtime.proxy.sends import GraphEdge


class PlannedChannel(NamedTuple):
    """A pair of devices in one function's plan."""

    channel: Channel
    function: str


class Place(NamedTuple):
    """Where the plans put a transfer of a graph: `rank` counts the transfers that the graph has."""

    channel: int
    plan_rank: int
    rank: int


class PlanTable:
    """Plans by function, indexed by what is seen on the wire. Immutable.

    Channels are numbered in the plans' order. Those without a transfer are left out, and those that go by priority:
    what is under way is not seen from here, so that they pass as they come, unplanned.
    """

    def __init__(self, plans: Mapping[str, Plan]) -> None:
        orders = [(function, order) for function, plan in plans.items() for order in plan.orders]
        planned = [
            (PlannedChannel(order.channel, function), order)
            for function, order in orders
            if order.transfers and order.discipline is Discipline.COUNTER
        ]
        self.channels: tuple[PlannedChannel, ...] = tuple(name for name, _ in planned)
        self._functions = frozenset(plans)
        self._pairs = frozenset(order.channel for _, order in orders if order.transfers)
        self._indices = {name: i for i, name in enumerate(self.channels)}
        self._by_edge = [{t.edge: t.rank for t in order.transfers} for _, order in planned]
        self._by_source = [_unique_sources(order) for _, order in planned]

    def speaks_of(self, channel: Channel) -> bool:
        """Whether some plan orders what goes from one device to the other."""
        return channel in self._pairs

    def index_of(self, channel: Channel, function: str = ALL_FUNCTIONS) -> int | None:
        """The number of a channel in the plan that a graph of `function` follows; None: it is not in there."""
        followed = function if function in self._functions else ALL_FUNCTIONS
        return self._indices.get(PlannedChannel(channel, followed))

    def rank_of(self, channel: int, edge: str) -> int | None:
        """The rank of an edge: by its exact name, else by a source node named once on the channel."""
        exact = self._by_edge[channel].get(edge)
        return self._by_source[channel].get(edge_source(edge)) if exact is None else exact

    def names_exactly(self, channel: int, edge: str) -> bool:
        """Whether the plan has the edge under this very name."""
        return edge in self._by_edge[channel]

    def size_of(self, channel: int) -> int:
        """How many transfers the plan orders on a channel."""
        return len(self._by_edge[channel])


def _unique_sources(order: ChannelOrder) -> dict[str, int]:
    ranks: dict[str, list[int]] = defaultdict(list)
    for transfer in order.transfers:
        ranks[edge_source(transfer.edge)].append(transfer.rank)
    return {source: found[0] for source, found in ranks.items() if len(found) == 1}


class GraphOrder:
    """The plan that a graph follows, filtered to its transfers, with dense ranks on each channel. Immutable."""

    def __init__(self, plans: PlanTable, function: str, edges: Iterable[GraphEdge]) -> None:
        self._places: dict[tuple[Channel, str], Place | None] = {}
        self.sizes: dict[int, int] = {}
        """How many transfers are ordered, by channel; channels without any are absent."""
        claims: dict[int, dict[int, list[GraphEdge]]] = defaultdict(lambda: defaultdict(list))
        for edge in edges:
            self._places[edge.channel, edge.edge] = None
            channel = plans.index_of(edge.channel, function) if edge.orderable else None
            rank = plans.rank_of(channel, edge.edge) if channel is not None else None
            if channel is not None and rank is not None:
                claims[channel][rank].append(edge)
        for channel, by_rank in claims.items():
            winners = {rank: _winner(plans, channel, by_rank[rank]) for rank in sorted(by_rank)}
            self._rank_densely(channel, winners)

    def has(self, channel: Channel, edge: str) -> bool:
        """Whether the graph makes the transfer, ordered or not."""
        return (channel, edge) in self._places

    def place_of(self, channel: Channel, edge: str) -> Place | None:
        """The place of a transfer; None: it is not ordered."""
        return self._places.get((channel, edge))

    def _rank_densely(self, channel: int, winners: Mapping[int, GraphEdge | None]) -> None:
        for plan_rank, winner in winners.items():
            if winner is not None:
                rank = self.sizes.get(channel, 0)
                self._places[winner.channel, winner.edge] = Place(channel, plan_rank, rank)
                self.sizes[channel] = rank + 1


def _winner(plans: PlanTable, channel: int, rivals: list[GraphEdge]) -> GraphEdge | None:
    """Of several edges that one rank fits, the exact one; without it none: the plan cannot tell them apart."""
    exact = next((edge for edge in rivals if plans.names_exactly(channel, edge.edge)), None)
    return exact or (rivals[0] if len(rivals) == 1 else None)
