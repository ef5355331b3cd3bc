"""The Plan: all that was decided about a job. Left of it modules decide, right of it they enforce."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tfwave.cost.model import CostSource
from tfwave.errors import PlanError
from tfwave.graph.names import Channel, TransferKey
from tfwave.plan.discipline import Discipline
from tfwave.plan.embeddings import Embeddings
from tfwave.plan.fingerprint import NO_GRAPH, GraphPrint
from tfwave.plan.groups import Groups
from tfwave.plan.layers import Layers
from tfwave.plan.memory import Memory
from tfwave.plan.placement import Placement
from tfwave.plan.waves import Waves

PLAN_VERSION = 3
_READABLE_VERSIONS = (2, PLAN_VERSION)


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
    """The order of all transfers from one device to another, most urgent first.

    `window_bytes` is for priority only: the most bytes in flight, above 0; a larger transfer goes alone.
    """

    channel: Channel
    transfers: tuple[PlannedTransfer, ...]
    discipline: Discipline = Discipline.COUNTER
    window_bytes: int = 0


@dataclass(frozen=True)
class Predicted:
    """Figures of TicTac section 3.2 before the run: U, L and makespan in seconds, E and S without unit.

    `bound` names the best lower bound of any order. Gains are shares of the unordered step, `gain` the expected
    one, where the hook keeps the order; `verdict` says in words whether that is worth its while. The last two are
    seconds of a step where the pass `ack_window` keeps it, with a window of 3, or where proxies do. 0 and "": not
    known.
    """

    upper_seconds: float = 0.0
    lower_seconds: float = 0.0
    makespan_seconds: float = 0.0
    efficiency: float = 0.0
    speedup: float = 0.0
    unordered_seconds: float = 0.0
    bound_seconds: float = 0.0
    bound: str = ""
    gain_low: float = 0.0
    gain: float = 0.0
    gain_high: float = 0.0
    verdict: str = ""
    ack_window_seconds: float = 0.0
    proxy_seconds: float = 0.0

    @property
    def ordered_seconds(self) -> float:
        """Of a step of all devices together, under the plan."""
        return self.unordered_seconds * (1 - self.gain)

    @property
    def gap(self) -> float:
        """How far the ordered step is above the best lower bound: 0 is proven optimal."""
        return self.ordered_seconds / self.bound_seconds - 1 if self.bound_seconds else 0.0


@dataclass(frozen=True)
class Plan:
    """What was decided about a job, in sections, each with what it promises.

    Attributes:
        policy: by which transfers are ordered; empty where no order was decided, as are the next four.
        graph: whose transfers are ordered.
        costs: where the times came from by which they are.
        predicted: what the order should give.
        orders: of each channel.
        groups: how jobs share one memory; None where that was not decided.
        waves: when the waves of a training step begin; None likewise.
        placement: which server holds each variable; None likewise.
        memory: which tensors of a step are away for a while; None likewise.
        layers: on how many devices each layer of a model runs; None likewise.
        embeddings: how rows of tables on servers travel beside the steps; None likewise.

    Raises:
        PlanError: an order without a device, ranks with gaps or duplicates, a window that its discipline has no
            use for, a channel, key or edge twice, a transfer of another channel, without an edge, of negative size,
            or whose priority is not a number; a zero byte in a name; or no section at all.
    """

    policy: str = ""
    graph: GraphPrint = NO_GRAPH
    costs: CostSource = CostSource("", "")
    predicted: Predicted = Predicted()
    orders: tuple[ChannelOrder, ...] = ()
    groups: Groups | None = None
    waves: Waves | None = None
    placement: Placement | None = None
    memory: Memory | None = None
    layers: Layers | None = None
    embeddings: Embeddings | None = None

    def __post_init__(self) -> None:
        """Hold the invariants that every reader of a plan relies on."""
        if self.orders and not self.policy:
            raise PlanError("it orders transfers, and names no policy: make the plan again")
        sections = (self.groups, self.waves, self.placement, self.memory, self.layers, self.embeddings)
        if not (self.has_order or any(sections)):
            raise PlanError("it decides nothing: it has no order, and no other section")
        _refuse_twice((str(order.channel) for order in self.orders), "channel")
        for order in self.orders:
            _check_order(order)

    @property
    def has_order(self) -> bool:
        """Was an order of transfers decided, be it of none?"""
        return bool(self.policy)

    def with_sections_of(self, other: "Plan") -> "Plan":
        """The sections of both; what both have is the other's."""
        order = other if other.has_order else self
        return Plan(
            policy=order.policy,
            graph=order.graph,
            costs=order.costs,
            predicted=order.predicted,
            orders=order.orders,
            groups=other.groups or self.groups,
            waves=other.waves or self.waves,
            placement=other.placement or self.placement,
            memory=other.memory or self.memory,
            layers=other.layers or self.layers,
            embeddings=other.embeddings or self.embeddings,
        )

    @property
    def fingerprint(self) -> str:
        """Of the graph whose transfers were planned; stable under node reordering."""
        return self.graph.fingerprint

    @property
    def transfers(self) -> tuple[PlannedTransfer, ...]:
        """The transfers of all channels."""
        return tuple(t for order in self.orders for t in order.transfers)


ALL_FUNCTIONS = ""
"""The plan of this function is for Sessions and for all functions that have none of their own."""


def plans_by_function(plans: Plan | Mapping[str, Plan]) -> Mapping[str, Plan]:
    """What may be installed, by TensorFlow's name of the function: one plan is for all.

    Raises:
        PlanError: neither a plan nor plans by name; or a name with a zero byte.
    """
    named: Mapping[str, Any] = plans if isinstance(plans, Mapping) else {ALL_FUNCTIONS: plans}
    _refuse_zero_byte("function", *named)
    for plan in named.values():
        if not isinstance(plan, Plan):
            raise PlanError(
                f"what is to be installed is of the type {type(plan).__name__}: give a plan, as plan_bundle and "
                "load_plan return it, or plans by the name of their function"
            )
    return named


def check_version(version: int) -> None:
    """Refuse a plan of another format.

    Raises:
        PlanError: its version is neither this one's nor the one before.
    """
    if version not in _READABLE_VERSIONS:
        known = " and ".join(map(str, _READABLE_VERSIONS))
        raise PlanError(
            f"plan version {version} is not known here (this tfwave reads {known}): make the plan again"
        )


def _check_order(order: ChannelOrder) -> None:
    where = f"the order {order.channel}"
    if not (order.channel.source and order.channel.destination):
        raise PlanError(f"{where} lacks a device: make the plan again")
    _refuse_zero_byte("device", order.channel.source, order.channel.destination)
    _check_window(where, order)
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


def _check_window(where: str, order: ChannelOrder) -> None:
    if order.discipline is Discipline.PRIORITY and order.window_bytes <= 0:
        raise PlanError(
            f"{where} goes by priority in a window of {order.window_bytes} bytes: give it at least 1"
        )
    if order.discipline is Discipline.COUNTER and order.window_bytes:
        raise PlanError(
            f"{where} goes by a counter, which has no window: give it 0 bytes, or the discipline priority"
        )


def _check_transfer(where: str, transfer: PlannedTransfer) -> None:
    if not transfer.edge:
        raise PlanError(f"{where}: {transfer.key} names no edge: make the plan from a partitioned graph")
    _refuse_zero_byte("edge", transfer.edge)
    if math.isnan(transfer.priority):
        raise PlanError(f"{where}: the priority of {transfer.key} is not a number")
    if transfer.bytes < 0:
        raise PlanError(f"{where}: the size of {transfer.key} is negative")


def _refuse_zero_byte(what: str, *names: str) -> None:
    """In the native library a name ends there, and could be another's."""
    for name in names:
        if "\0" in name:
            raise PlanError(f"the {what} {name!r} has a zero byte in its name: make the plan again")


def _refuse_twice(names: Iterable[str], what: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise PlanError(f"the plan names the {what} {name} twice")
        seen.add(name)
