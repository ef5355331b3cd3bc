"""The step as the simulator sees it, ordered and not."""

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tfwave.cost.cluster import Port
from tfwave.cost.network import Network
from tfwave.cost.table import Costs
from tfwave.graph.names import Channel, home_of
from tfwave.graph.transfer import Transfer, Transfers
from tfwave.graph.view import GraphView
from tfwave.order.bounds import Bounds, carriers, find_bounds
from tfwave.plan.discipline import ACK_WINDOW
from tfwave.plan.plan import ChannelOrder
from tfwave.planner.enforcers import OrderedStep
from tfwave.planner.workers import busiest_server, pulling_devices
from tfwave.sim.simulate import ChannelRule, ranks_of
from tfwave.sim.steps import Sending, SimulatedSteps, StepTimes, simulate_steps
from tfwave.sim.stock import stock_disciplines, stock_ranks


@dataclass(frozen=True)
class Forecast(StepTimes):
    """What a step should take, and what bounds it.

    `wire_seconds` is what the busiest link or network card carries, in one direction and then in the other;
    `bounds` are those of all transfers together. `served_seconds` is what the busiest server has to send, or to
    receive, for a step of all workers, where several run the graph each by itself; else 0. The last two are of a
    step whose order `ack_window` keeps, or a proxy, not the hook; 0: they cannot, or that is not known.
    """

    wire_seconds: float
    bounds: Bounds
    served_seconds: float = 0.0
    ack_window_seconds: float = 0.0
    proxy_seconds: float = 0.0

    @property
    def served(self) -> float:
        """The share of an unordered step in which the busiest server's card is busy for workers by themselves."""
        return self.served_seconds / self.unordered_seconds if self.unordered_seconds else 0.0

    @property
    def idle(self) -> float:
        """The share of an unordered step in which even the busiest link or card is idle at the least."""
        return max(0.0, 1 - self.wire_seconds / self.unordered_seconds) if self.unordered_seconds else 1.0


def forecast(
    view: GraphView,
    transfers: Sequence[Transfer],
    network: Network,
    orders: Sequence[ChannelOrder],
    workers: int = 1,
) -> Forecast:
    """Simulate a step; channels without an order send of what is ready any, as stock TensorFlow does.

    Ops of tasks for which the costs know nothing take no time. Of `workers` that run the graph each by itself one
    is simulated, and no step is shorter than what the servers have to do for all, or the cores for a step that
    sends so much (`Network.cores_seconds`).

    Raises:
        MissingCost: a cost is not known in a task that an order speaks of; names it.
        PlanError: an order waits for itself.
    """
    found = simulated(transfers, network, orders)
    served = workers * max(busiest_server(view, transfers, network)) if workers > 1 else 0.0
    carried = _carried_seconds(transfers, network)
    pulling = workers * len({home_of(device) for device in pulling_devices(view, transfers)})
    cores = network.cores_seconds(max(carried.values(), default=0.0), pulling)
    least = max(served, cores)
    ordered = OrderedStep(transfers, network, orders, found.ordered, least, cores)
    return Forecast(
        max(least, found.ordered.seconds),
        tuple(max(least, seconds) for seconds in found.unordered),
        _wire_seconds(carried),
        find_bounds(view, transfers, _known_costs(network, orders), network.cluster),
        served,
        ordered.ack_window_seconds(ACK_WINDOW) if ordered.can_be_kept else 0.0,
        ordered.proxy_seconds() if ordered.can_be_kept else 0.0,
    )


def simulated(
    transfers: Sequence[Transfer], network: Network, orders: Sequence[ChannelOrder]
) -> SimulatedSteps:
    """The steps of a forecast, on their own: no other worker slows them.

    Raises:
        MissingCost, PlanError: as `forecast`.
    """
    rules = [ChannelRule(o.channel, o.discipline, tuple(t.key for t in o.transfers)) for o in orders]
    planned = stock_disciplines(transfers) | {rule.channel: rule.discipline for rule in rules}
    sending = Sending(planned, ranks_of(transfers, rules))
    stock = stock_ranks(transfers, network.seen)
    costs = _known_costs(network, orders)
    return simulate_steps(Transfers(tuple(transfers), ()), costs, network.cluster, sending, stock)


def _known_costs(network: Network, orders: Sequence[ChannelOrder]) -> Costs:
    return _free_elsewhere(network.costs, {home_of(order.channel.destination) for order in orders})


def _free_elsewhere(costs: Costs, homes: Collection[str]) -> Costs:
    """Nothing need be known of the ops of other tasks than these."""
    nodes = enumerate(costs.view.nodes)
    return costs.fill({index: 0.0 for index, node in nodes if home_of(node.device) not in homes})


def _carried_seconds(transfers: Sequence[Transfer], network: Network) -> dict[Port | Channel, float]:
    """Of each direction of a card, and of each channel that no card limits."""
    seconds = {transfer: network.costs.transfer_seconds(transfer) for transfer in transfers}
    carrier = carriers(seconds, network.cluster)
    carried: dict[Port | Channel, list[float]] = defaultdict(list)
    for transfer, taken in seconds.items():
        carried[carrier[transfer.channel]].append(taken)
    return {by: math.fsum(taken) for by, taken in carried.items()}


def _wire_seconds(carried: Mapping[Port | Channel, float]) -> float:
    """Of the busiest card, or of the busiest pair of devices without one; both directions."""
    work: dict[str | frozenset[str], float] = defaultdict(float)
    for carrier, seconds in carried.items():
        match carrier:
            case Port(task=task):
                work[task] += seconds
            case Channel(source=source, destination=destination):
                work[frozenset({source, destination})] += seconds
    return max(work.values(), default=0.0)
