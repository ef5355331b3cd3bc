"""Bounds on the step time that no order can leave (TicTac section 3.2, and tighter ones)."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tfwave.cost.cluster import UNSHARED, Cluster, Port
from tfwave.cost.model import vetted
from tfwave.cost.table import Costs
from tfwave.cost.ticks import in_ticks
from tfwave.graph.names import Channel, home_of
from tfwave.graph.transfer import Transfer
from tfwave.graph.view import RECV_OPS, GraphView
from tfwave.order.floors import BUSIEST, Load, find_floors


@dataclass(frozen=True)
class Floor:
    """A time that no order can beat, in seconds, and the name of the argument; see `find_bounds`."""

    name: str
    seconds: float


@dataclass(frozen=True)
class Bounds:
    """U and L, in seconds, which ignore dependencies; and floors, which do not.

    Two bounds are equal where U and L are.
    """

    upper_seconds: float
    lower_seconds: float
    floors: tuple[Floor, ...] = field(default=(), compare=False)

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

    @property
    def best(self) -> Floor:
        """The highest floor; of equal ones the first. L where none was worked out."""
        return max(self.floors, key=lambda floor: floor.seconds, default=Floor(BUSIEST, self.lower_seconds))

    def gap(self, makespan_seconds: float) -> float:
        """How far above the best floor: 0 is proven optimal, 0.1 is at most 10 % above the optimum."""
        if not self.best.seconds:
            return 0.0
        return makespan_seconds / self.best.seconds - 1


def find_bounds(
    view: GraphView, transfers: Sequence[Transfer], costs: Costs, cluster: Cluster = UNSHARED
) -> Bounds:
    """U: all ops and transfers one after the other. L: the busiest resource alone. And the floors.

    The resources are the compute of each device of the tasks that the transfers go to, and each channel; of what
    share a network card of `cluster`, the card in place of them: of a channel's two cards, that with more to do.
    An op that names no device counts to the only destination, or, of several, to a resource of its own. All else
    takes no time. The floors, the last two at least as high as all before them:

    1. "busiest resource": L.
    2. "critical path": the longest path through ops and transfers.
    3. "release times": of each resource alone, where each op or transfer waits for the longest path to it,
       and the longest path after it follows it.
    4. "pull then push": the same, where each also waits until any other resource has done all that it waits
       for there, and is followed by all that waits for it on any other resource. A push that depends on each
       pull starts after the sum of the pulls.

    Raises:
        MissingCost: the table does not know a cost; names it.
        CostError: a cost is negative, infinite or not a number; names it.
        GraphError: a cycle that is not a while loop.
    """
    destinations = {t.channel.destination for t in transfers}
    unnamed = next(iter(destinations)) if len(destinations) == 1 else ""
    homes = {home_of(device) for device in destinations}
    busy: dict[str | Channel | Port, dict[int, float]] = defaultdict(dict)
    for node, op in enumerate(view.ops):
        device = view.nodes[node].device or unnamed
        if op not in RECV_OPS and (home_of(device) in homes or not device):
            busy[device][node] = vetted(costs.op_seconds(node), view.names[node])
    computing = len(busy)
    seconds_of = {t: vetted(costs.transfer_seconds(t), t.node) for t in transfers}
    carrier = carriers(seconds_of, cluster)
    for transfer, seconds in seconds_of.items():
        busy[carrier[transfer.channel]][transfer.recv] = seconds
    upper = math.fsum(seconds for work in busy.values() for seconds in work.values())
    lower = max((math.fsum(work.values()) for work in busy.values()), default=0.0)
    ticks = in_ticks([seconds for work in busy.values() for seconds in work.values()], [])
    left = iter(ticks.ops)
    loads = [{node: next(left) for node in work} for work in busy.values()]
    found = find_floors(view, Load(loads[:computing], loads[computing:]))
    return Bounds(upper, lower, tuple(Floor(name, ticks.seconds(t)) for name, t in found.items()))


def carriers(seconds: Mapping[Transfer, float], cluster: Cluster) -> dict[Channel, Channel | Port]:
    """What carries the transfers of each channel: itself, or, of the ports that limit it, that with more to do."""
    work: dict[Port, float] = defaultdict(float)
    for transfer, taken in seconds.items():
        for port in cluster.ports(transfer.channel):
            work[port] += taken
    channels = {transfer.channel for transfer in seconds}
    return {c: max(cluster.ports(c), key=work.__getitem__, default=c) for c in channels}


def flow_shop_floor(steps: int, pull_seconds: float, largest_seconds: float) -> float:
    """The least seconds per step of `steps` training steps that overlap: ((K+1) P + (K-1) x largest) / K.

    The model: per-variable dependencies only, so that step k+1 pulls a variable as soon as step k's push of
    it was applied. All pulls pass one channel, all pushes another of the same speed; one pass over
    either takes P = `pull_seconds`. A tensor is pushed whole before it is pulled, the largest in
    `largest_seconds`, and no gradient of a step exists before all its pulls have arrived. So the first step's
    pulls take P, each step's pushes P, and between two steps the largest tensor holds up the other channel.

    Raises:
        ValueError: no step, or a largest tensor that takes longer than the whole pull.
    """
    if steps < 1:
        raise ValueError(f"{steps} steps do not overlap: give at least 1")
    if not 0 <= largest_seconds <= pull_seconds:
        raise ValueError(
            f"the largest tensor takes {largest_seconds} s and all of them {pull_seconds} s: "
            "a part cannot take longer than the whole"
        )
    return ((steps + 1) * pull_seconds + (steps - 1) * largest_seconds) / steps
