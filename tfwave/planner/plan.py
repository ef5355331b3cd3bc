"""What is sent in which order, by which discipline, and what that should give."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tfwave.cost.network import Network
from tfwave.cost.table import Costs
from tfwave.errors import GraphError
from tfwave.graph.names import Channel, home_of
from tfwave.graph.transfer import Transfer
from tfwave.graph.view import GraphView
from tfwave.order.bounds import find_bounds
from tfwave.order.deps import upstream_transfers
from tfwave.order.order import Order, Ranked
from tfwave.order.registry import find_policy
from tfwave.order.urgency import by_urgency
from tfwave.plan.discipline import Discipline
from tfwave.plan.fingerprint import graph_print
from tfwave.plan.plan import ChannelOrder, Plan, PlannedTransfer, Predicted
from tfwave.planner.forecast import Forecast, forecast
from tfwave.planner.tangles import untangled
from tfwave.planner.verdict import judge
from tfwave.planner.workers import check_workers, pulling_devices
from tfwave.sim.makespan import makespan

URGENCY = "urgency"
"""The policy that a plan of steps that overlap names."""
WINDOW_BYTES = 256 << 10
"""A channel by priority has so many bytes in flight: larger tensors and blocks leave one by one, so that an urgent
one waits for one at most. Larger windows made overlapped steps slower: 612 ms with 3 MiB, 597 ms so (VGG16-like,
1 Gbit/s)."""


@dataclass(frozen=True)
class PlanRequest:
    """What to plan.

    Attributes:
        policy: by name.
        seed: of "random" and "search".
        device: plan only what arrives there, or at any device of that task; default: every device that pulls.
        workers: how many run the graph, each by itself, as in asynchronous training: the verdict depends on it.

    Raises:
        PlanError: workers that are no whole number of at least 1.
    """

    policy: str
    seed: int = 0
    device: str | None = None
    workers: int = 1

    def __post_init__(self) -> None:
        """Refuse to plan for nobody."""
        check_workers(self.workers)


@dataclass(frozen=True)
class ChosenOrders:
    """Of each channel; `per_task` are the transfers that were ordered together, most urgent first."""

    policy: str
    orders: tuple[ChannelOrder, ...]
    per_task: tuple[tuple[Transfer, ...], ...]


def make_plan(view: GraphView, transfers: Sequence[Transfer], network: Network, request: PlanRequest) -> Plan:
    """Order data transfers by what they are given to take, and say what that should give on the network's cards.

    Case 1: steps that overlap: some pulls wait for pushes of gradients. Whatever the policy, all channels go by
        priority, in both directions: a transfer is the more urgent, the longer the path that follows it.
    Case 2: all else, or a device was asked for. What arrives at the devices of each task that pull, by the policy,
        is sent by a counter. What arrives elsewhere, such as gradients at a server, has no order, and what a task's
        devices copy from each other has none either.

    One order is of all devices of a task. Each channel keeps its own part of it; which of two channels sends first,
    such as those to two devices of one worker, is not ordered. Where orders of tasks would wait for each other,
    some transfers go before their turn (`untangled`).

    The predicted figures are those of the slowest task; those of the step are of all tasks together.

    Raises:
        GraphError: nothing to order, or an unknown device; names those there are.
        MissingCost: a cost is not known; names it.
        TfwaveError: no such policy; names those that exist.
    """
    costs = network.given
    chosen = choose_orders(view, transfers, costs, request)
    found = forecast(view, transfers, network, chosen.orders, request.workers)
    return Plan(
        policy=chosen.policy,
        graph=graph_print(view),
        costs=costs.source,
        predicted=_predict(view, chosen.per_task, len(transfers), network, found),
        orders=chosen.orders,
    )


def choose_orders(
    view: GraphView, transfers: Sequence[Transfer], costs: Costs, request: PlanRequest
) -> ChosenOrders:
    """The orders of a plan, as `make_plan` makes it, without a word on what they should give.

    Raises:
        GraphError: nothing to order, or an unknown device; names those there are.
        MissingCost: a cost is not known; names it.
        TfwaveError: no such policy; names those that exist.
    """
    upstream = upstream_transfers(view, transfers)
    pulling = pulling_devices(view, transfers, upstream)
    order_of = find_policy(request.policy, seed=request.seed)
    if request.device is None and _overlaps(transfers, upstream, pulling):
        urgent = _by_priority(by_urgency(view, transfers, costs))
        return ChosenOrders(URGENCY, urgent, (tuple(transfers),))
    alone = [order_of(view, arriving, costs) for arriving in _by_task(transfers, pulling, request.device)]
    chosen = untangled(alone, transfers, upstream)
    return ChosenOrders(
        request.policy,
        tuple(channel for order in chosen for channel in _per_channel(order)),
        tuple(tuple(ranked.transfer for ranked in order) for order in chosen),
    )


def _overlaps(transfers: Sequence[Transfer], upstream: Sequence[int], pulling: frozenset[str]) -> bool:
    """Whether steps overlap: some pull waits for a push that waited for pulls."""
    pulls = sum(1 << i for i, t in enumerate(transfers) if t.channel.destination in pulling)
    pushes = sum(
        1 << i
        for i, t in enumerate(transfers)
        if t.channel.destination not in pulling and upstream[t.recv] & pulls
    )
    return any(upstream[t.recv] & pushes for t in transfers if t.channel.destination in pulling)


def _by_task(
    transfers: Sequence[Transfer], pulling: frozenset[str], device: str | None
) -> list[list[Transfer]]:
    """What is ordered together, in the order of the tasks' names."""
    arriving: dict[str, list[Transfer]] = defaultdict(list)
    devices = _destinations(transfers, pulling, device)
    for transfer in transfers:
        if transfer.channel.destination in devices:
            arriving[home_of(transfer.channel.destination)].append(transfer)
    return [arriving[home] for home in sorted(arriving)]


def _destinations(
    transfers: Sequence[Transfer], pulling: frozenset[str], device: str | None
) -> frozenset[str]:
    there = sorted({t.channel.destination for t in transfers})
    if not there:
        raise GraphError(
            "the step transfers nothing from task to task (no _Recv with data), so there is no order to plan: give "
            "a worker's partition, or a graph or capture of a job on several tasks; what a captured step of one "
            "task holds, `tfwave memory` tells"
        )
    if device is None:
        return pulling
    asked_for = frozenset(d for d in there if device in {d, home_of(d)})
    if not asked_for:
        raise GraphError(f"no transfer arrives at device '{device}'; choose one of {', '.join(there)}")
    return asked_for


def _predict(
    view: GraphView,
    per_task: Sequence[Sequence[Transfer]],
    transfers: int,
    network: Network,
    found: Forecast,
) -> Predicted:
    """`transfers` are all there are: where the slowest device gets them all, the forecast has its bounds.

    But not where the makespan is by what was given, and the forecast by cards that channels share.
    """
    costs = network.given
    timed = [(_seconds(view, sent, costs, found), sent) for sent in per_task]
    seconds, slowest = max(timed, key=lambda pair: pair[0])
    alike = network.on_card is None or _is_beside(view, slowest)
    bounds = found.bounds if alike and len(slowest) == transfers else find_bounds(view, slowest, costs)
    said = judge(found)
    return Predicted(
        upper_seconds=bounds.upper_seconds,
        lower_seconds=bounds.lower_seconds,
        makespan_seconds=seconds,
        efficiency=bounds.efficiency(seconds),
        speedup=bounds.speedup,
        unordered_seconds=found.unordered_seconds,
        bound_seconds=found.bounds.best.seconds,
        bound=found.bounds.best.name,
        gain_low=said.low,
        gain=said.gain,
        gain_high=said.high,
        verdict=said.text,
        ack_window_seconds=found.ack_window_seconds,
        proxy_seconds=found.proxy_seconds,
    )


def _seconds(view: GraphView, sent: Sequence[Transfer], costs: Costs, found: Forecast) -> float:
    """Of all, where several devices or tasks work at once; the makespan knows one."""
    return found.ordered_seconds if _is_beside(view, sent) else makespan(view, sent, costs)


def _is_beside(view: GraphView, sent: Sequence[Transfer]) -> bool:
    """Do several devices or tasks work at once, to which these are sent?"""
    homes = {home_of(t.channel.destination) for t in sent}
    computing = {device for device in view.by_device if home_of(device) in homes}
    return max(len(homes), len(computing)) > 1


def _by_priority(urgent: Mapping[Channel, Order]) -> tuple[ChannelOrder, ...]:
    return tuple(
        ChannelOrder(channel, _planned(order), Discipline.PRIORITY, WINDOW_BYTES)
        for channel, order in urgent.items()
    )


def _per_channel(order: Order) -> list[ChannelOrder]:
    channels = sorted({ranked.transfer.channel for ranked in order})
    return [ChannelOrder(c, _planned([r for r in order if r.transfer.channel == c])) for c in channels]


def _planned(order: Sequence[Ranked]) -> tuple[PlannedTransfer, ...]:
    return tuple(
        PlannedTransfer(r.transfer.key, r.transfer.node, rank, r.priority, r.transfer.bytes, r.transfer.edge)
        for rank, r in enumerate(order)
    )
