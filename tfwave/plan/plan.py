"""The Plan: all that was decided about one graph. Left of it modules decide, right of it they enforce."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from tfwave.cost.model import CostSource
from tfwave.errors import PlanError
from tfwave.graph.names import Channel, TransferKey
from tfwave.plan.fingerprint import GraphPrint

PLAN_VERSION = 1


@dataclass(frozen=True)
class PlannedTransfer:
    """One transfer in its turn.

    `rank` counts from 0 within the channel; `priority` is the policy's own figure (lower first, equal: either
    may go); `bytes` is 0 where the graph does not say; `node` and `edge` are the `_Recv` and the wire name in
    the graph that was planned.
    """

    key: TransferKey
    node: str
    rank: int
    priority: float
    bytes: int
    edge: str


@dataclass(frozen=True)
class ChannelOrder:
    """The order of all transfers from one device to another, most urgent first."""

    channel: Channel
    transfers: tuple[PlannedTransfer, ...]


@dataclass(frozen=True)
class Predicted:
    """Figures of TicTac section 3.2 before the run: U, L and makespan in seconds, E and S without unit."""

    upper_seconds: float
    lower_seconds: float
    makespan_seconds: float
    efficiency: float
    speedup: float


@dataclass(frozen=True)
class Plan:
    """An order for each channel of one graph, with what it was decided from and what it promises.

    Raises:
        PlanError: an order without a device, ranks with gaps or duplicates, a channel, key or edge twice, a
            transfer of another channel, without an edge, of negative size, or whose priority is not a number.
    """

    policy: str
    graph: GraphPrint
    costs: CostSource
    predicted: Predicted
    orders: tuple[ChannelOrder, ...]
    version: int = PLAN_VERSION

    def __post_init__(self) -> None:
        """Hold the invariants that every reader of a plan relies on."""
        if self.version != PLAN_VERSION:
            raise PlanError(
                f"plan version {self.version} is not known here (this tfwave reads {PLAN_VERSION})"
            )
        _refuse_twice((str(order.channel) for order in self.orders), "channel")
        for order in self.orders:
            _check_order(order)

    @property
    def fingerprint(self) -> str:
        """Of the graph that was planned; stable under node reordering."""
        return self.graph.fingerprint

    @property
    def transfers(self) -> tuple[PlannedTransfer, ...]:
        """The transfers of all channels."""
        return tuple(t for order in self.orders for t in order.transfers)


def _check_order(order: ChannelOrder) -> None:
    where = f"the order {order.channel}"
    if not (order.channel.source and order.channel.destination):
        raise PlanError(f"{where} lacks a device: make the plan again")
    for rank, transfer in enumerate(order.transfers):
        if transfer.rank != rank:
            raise PlanError(
                f"{where} has rank {transfer.rank} where {rank} belongs: ranks must be 0..n-1, without gaps"
            )
        if transfer.key.channel != order.channel:
            raise PlanError(f"{where} holds a transfer of another channel: {transfer.key}")
        _check_transfer(where, transfer)
    _refuse_twice((str(t.key) for t in order.transfers), "transfer")
    _refuse_twice((t.edge for t in order.transfers), "edge")


def _check_transfer(where: str, transfer: PlannedTransfer) -> None:
    if not transfer.edge:
        raise PlanError(f"{where}: {transfer.key} names no edge: make the plan from a partitioned graph")
    if math.isnan(transfer.priority):
        raise PlanError(f"{where}: the priority of {transfer.key} is not a number")
    if transfer.bytes < 0:
        raise PlanError(f"{where}: the size of {transfer.key} is negative")


def _refuse_twice(names: Iterable[str], what: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise PlanError(f"the plan names the {what} {name} twice")
        seen.add(name)
