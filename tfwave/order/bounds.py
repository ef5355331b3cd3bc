"""Bounds on the step time that no order can leave (TicTac section 3.2)."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tfwave.cost.model import CostModel, vetted
from tfwave.graph.names import Channel
from tfwave.graph.transfer import Transfer
from tfwave.graph.view import RECV_OPS, GraphView


@dataclass(frozen=True)
class Bounds:
    """U and L, in seconds. They ignore dependencies: L may be out of reach of every order."""

    upper_seconds: float
    lower_seconds: float

    @property
    def speedup(self) -> float:
        """S = (U - L) / L, the most that order can gain; 0 where nothing takes any time."""
        if not self.lower_seconds:
            return 0.0
        return (self.upper_seconds - self.lower_seconds) / self.lower_seconds

    def efficiency(self, makespan_seconds: float) -> float:
        """E = (U - makespan) / (U - L): 1 is perfect, 0 the worst order, below 0 holds idle time besides.

        Where U equals L, one resource does all the work, every order is perfect, and E is 1 by definition.
        """
        spread = self.upper_seconds - self.lower_seconds
        if not spread:
            return 1.0
        return (self.upper_seconds - makespan_seconds) / spread


def find_bounds(view: GraphView, transfers: Sequence[Transfer], costs: CostModel) -> Bounds:
    """U: all ops and transfers one after the other. L: the busiest resource alone.

    The resources are the compute of each device that the transfers go to, and each channel. An op that names
    no device counts to the only destination, or, of several, to a resource of its own.

    Raises:
        MissingCost: the model does not know a cost; names it.
        CostError: a cost is negative, infinite or not a number; names it.
    """
    destinations = {t.channel.destination for t in transfers}
    unnamed = next(iter(destinations)) if len(destinations) == 1 else ""
    busy: dict[str | Channel, list[float]] = defaultdict(list)
    for node, op in enumerate(view.ops):
        device = view.nodes[node].device or unnamed
        if op not in RECV_OPS and (device in destinations or not device):
            busy[device].append(vetted(costs.op_seconds(view, node), view.names[node]))
    for transfer in transfers:
        busy[transfer.channel].append(vetted(costs.transfer_seconds(transfer), transfer.node))
    upper = math.fsum(seconds for work in busy.values() for seconds in work)
    return Bounds(upper, max(map(math.fsum, busy.values()), default=0.0))
