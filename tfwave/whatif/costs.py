"""What the nodes and transfers of a layout cost: as much as those that they are copies of."""

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cached_property

from tfwave.balance.holdings import server_of
from tfwave.cost.model import CostModel, CostSource
from tfwave.graph.names import task_of
from tfwave.graph.transfer import Transfer
from tfwave.graph.view import RECV_OPS, GraphView
from tfwave.order.bounds import Floor, find_bounds
from tfwave.whatif.layout import Layout
from tfwave.whatif.subject import Subject


@dataclass(frozen=True)
class InheritedCosts:
    """The costs of a captured job for a layout of it, with all ops scaled that run on no server.

    `latency_seconds` is added to what each transfer takes.
    """

    base: CostModel
    subject: Subject
    layout: Layout
    scale: float = 1.0
    latency_seconds: float = 0.0

    @property
    def source(self) -> CostSource:
        """The captured job's; scaled ops are estimates."""
        source = self.base.source
        return source if self.scale == 1 else replace(source, ops="estimated")

    def op_seconds(self, view: GraphView, node: int) -> float:
        """Seconds of the captured op, scaled."""
        seconds = self.base.op_seconds(self.subject.view, self.layout.origins[node])
        on_server = server_of(view.nodes[node].device, self.subject.job) is not None
        return seconds if on_server else seconds * self.scale

    def transfer_seconds(self, transfer: Transfer) -> float:
        """Seconds of the captured transfer, and the latency."""
        return self.base.transfer_seconds(self.captured(transfer)) + self.latency_seconds

    def captured(self, transfer: Transfer) -> Transfer:
        """The captured transfer that one of the layout is a copy of."""
        return self._captured[self.layout.origins[transfer.recv]]

    @cached_property
    def _captured(self) -> dict[int, Transfer]:
        return {transfer.recv: transfer for transfer in self.subject.transfers.data}


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


def loads_of(layout: Layout, costs: CostModel) -> Loads:
    """What has to be done in a step; costs without latency."""
    cards: dict[str, list[float]] = defaultdict(list)
    for transfer in layout.transfers.data:
        seconds = costs.transfer_seconds(transfer)
        cards[f"card of {task_of(transfer.channel.source)}, sending"].append(seconds)
        cards[f"card of {task_of(transfer.channel.destination)}, receiving"].append(seconds)
    devices: dict[str, list[float]] = defaultdict(list)
    for node, (op, device) in enumerate(zip(layout.view.ops, layout.devices(), strict=True)):
        if op not in RECV_OPS:
            devices[f"compute of {device}"].append(costs.op_seconds(layout.view, node))
    return Loads(
        {name: math.fsum(seconds) for name, seconds in sorted(cards.items())},
        {name: math.fsum(seconds) for name, seconds in sorted(devices.items())},
    )


def bound_of(layout: Layout, costs: CostModel, loads: Loads) -> Floor:
    """The highest floor of a step: of `find_bounds`, of the cards and of the devices; costs without latency."""
    best = find_bounds(layout.view, layout.transfers.data, costs).best
    return max(best, *loads.floors, key=lambda floor: floor.seconds)
