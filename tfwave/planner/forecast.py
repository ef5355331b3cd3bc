"""The step as the simulator sees it, ordered and not."""

import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from tfwave.cost.model import CostModel, CostSource
from tfwave.errors import MissingCost
from tfwave.graph.names import Channel
from tfwave.graph.transfer import Transfer, Transfers
from tfwave.graph.view import GraphView
from tfwave.order.bounds import Bounds, carriers, find_bounds
from tfwave.plan.plan import ChannelOrder
from tfwave.planner.network import Network
from tfwave.planner.workers import busiest_server
from tfwave.sim.cluster import Port
from tfwave.sim.job import compile_job
from tfwave.sim.simulate import ChannelRule, ranks_of
from tfwave.sim.stock import stock_disciplines, stock_ranks


@dataclass(frozen=True)
class Forecast:
    """Seconds of a step of all devices together: under the orders, and of some steps without any.

    `wire_seconds` is what the busiest link or network card carries, in one direction and then in the other;
    `bounds` are those of all transfers together. `served_seconds` is what the busiest server has to send, or to
    receive, for a step of all workers, where several run the graph each by itself; else 0.
    """

    ordered_seconds: float
    unordered: tuple[float, ...]
    wire_seconds: float
    bounds: Bounds
    served_seconds: float = 0.0

    @cached_property
    def unordered_seconds(self) -> float:
        """The mean."""
        return statistics.fmean(self.unordered)

    @property
    def served(self) -> float:
        """The share of an unordered step in which the busiest server's card is busy for workers by themselves."""
        return self.served_seconds / self.unordered_seconds if self.unordered_seconds else 0.0

    @property
    def idle(self) -> float:
        """The share of an unordered step in which even the busiest link or card is idle at the least."""
        return max(0.0, 1 - self.wire_seconds / self.unordered_seconds) if self.unordered_seconds else 1.0

    def gain(self, unordered_seconds: float) -> float:
        """The share of such an unordered step that the orders save."""
        return 1 - self.ordered_seconds / unordered_seconds if unordered_seconds else 0.0


def forecast(
    view: GraphView,
    transfers: Sequence[Transfer],
    network: Network,
    orders: Sequence[ChannelOrder],
    workers: int = 1,
) -> Forecast:
    """Simulate a step; channels without an order send of what is ready any, as stock TensorFlow does.

    Ops of devices for which the costs know nothing take no time. Of `workers` that run the graph each by itself one
    is simulated, and no step is shorter than what the servers have to do for all, or the cores for a step.

    Raises:
        MissingCost: a cost is not known on a device that an order speaks of; names it.
        PlanError: an order waits for itself.
    """
    cluster = network.cluster
    known = _FreeElsewhere(network.costs, frozenset(o.channel.destination for o in orders))
    both = Transfers(tuple(transfers), ())
    rules = [ChannelRule(o.channel, o.discipline, tuple(t.key for t in o.transfers)) for o in orders]
    anyhow = stock_disciplines(transfers)
    planned = anyhow | {rule.channel: rule.discipline for rule in rules}
    ordered = compile_job(view, both, known, cluster, planned).run(ranks_of(transfers, rules))
    free = compile_job(view, both, known, cluster, anyhow)
    unordered = tuple(free.makespan(ranks) for ranks in stock_ranks(transfers, network.seen))
    served = workers * max(busiest_server(view, transfers, network)) if workers > 1 else 0.0
    least = max(served, network.machine_seconds)
    return Forecast(
        max(least, free.ticks.seconds(ordered.finish)),
        tuple(max(least, seconds) for seconds in unordered),
        _wire_seconds(transfers, network),
        find_bounds(view, transfers, known, cluster),
        served,
    )


def _wire_seconds(transfers: Sequence[Transfer], network: Network) -> float:
    """Of the busiest card, or of the busiest pair of devices without one; both directions."""
    seconds = {transfer: network.costs.transfer_seconds(transfer) for transfer in transfers}
    carrier = carriers(seconds, network.cluster)
    work: dict[str | frozenset[str], list[float]] = defaultdict(list)
    for transfer, taken in seconds.items():
        match carrier[transfer.channel]:
            case Port(task=task):
                work[task].append(taken)
            case Channel(source=source, destination=destination):
                work[frozenset({source, destination})].append(taken)
    return max(map(math.fsum, work.values()), default=0.0)


@dataclass(frozen=True)
class _FreeElsewhere:
    """Costs that need not know the ops of other devices than these."""

    costs: CostModel
    devices: frozenset[str]

    @property
    def source(self) -> CostSource:
        return self.costs.source

    def op_seconds(self, view: GraphView, node: int) -> float:
        try:
            return self.costs.op_seconds(view, node)
        except MissingCost:
            if view.nodes[node].device in self.devices:
                raise
            return 0.0

    def transfer_seconds(self, transfer: Transfer) -> float:
        return self.costs.transfer_seconds(transfer)
