"""What the nodes and transfers of a layout cost: as much as those that they are copies of."""

import math
from collections import defaultdict
from dataclasses import dataclass, replace

from tfwave.balance.holdings import server_of
from tfwave.cost.table import Costs
from tfwave.graph.names import task_of
from tfwave.graph.view import RECV_OPS
from tfwave.order.bounds import Floor, find_bounds
from tfwave.whatif.layout import Layout


def inherited(captured: Costs, layout: Layout, job: str, scale: float = 1.0) -> Costs:
    """The costs of a captured job for a layout of it, with all ops scaled that run on no server (task of `job`)."""
    nodes = enumerate(layout.view.nodes)
    workers = (index for index, node in nodes if server_of(node.device, job) is None)
    return captured.restrict(layout.view, layout.origins).scale(scale, workers)


def later(costs: Costs, latency_seconds: float) -> Costs:
    """With a latency beside what each transfer takes."""
    return replace(
        costs, transfers={recv: seconds + latency_seconds for recv, seconds in costs.transfers.items()}
    )


@dataclass(frozen=True)
class Loads:
    """Seconds of work: of each network card in each direction, and of each device."""

    cards: dict[str, float]
    devices: dict[str, float]

    @property
    def floors(self) -> list[Floor]:
        """What no order can beat: the busiest of each kind, if any."""
        return [
            Floor(name, seconds)
            for loads in (self.cards, self.devices)
            for name, seconds in [max(loads.items(), key=lambda load: load[1], default=("", 0.0))]
            if name
        ]


def loads_of(layout: Layout, costs: Costs) -> Loads:
    """What has to be done in a step; costs without latency."""
    cards: dict[str, list[float]] = defaultdict(list)
    for transfer in layout.transfers.data:
        seconds = costs.transfer_seconds(transfer)
        cards[f"card of {task_of(transfer.channel.source)}, sending"].append(seconds)
        cards[f"card of {task_of(transfer.channel.destination)}, receiving"].append(seconds)
    devices: dict[str, list[float]] = defaultdict(list)
    for node, (op, device) in enumerate(zip(layout.view.ops, layout.devices(), strict=True)):
        if op not in RECV_OPS:
            devices[f"compute of {device}"].append(costs.op_seconds(node))
    return Loads(
        {name: math.fsum(seconds) for name, seconds in sorted(cards.items())},
        {name: math.fsum(seconds) for name, seconds in sorted(devices.items())},
    )


def bound_of(layout: Layout, costs: Costs, loads: Loads) -> Floor:
    """The highest floor of a step: of `find_bounds`, of the cards and of the devices; costs without latency."""
    best = find_bounds(layout.view, layout.transfers.data, costs).best
    return max(best, *loads.floors, key=lambda floor: floor.seconds)
