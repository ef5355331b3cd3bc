"""What a step takes where not the hook keeps its order, but acknowledgements in the graph, or proxies.

The seconds below were fitted to inferences and trainings of eight models at 1 and 4 Gbit/s, on two cores of an AMD
EPYC in each of two machines, one of them twice as fast as the other. Beside a proxy steps vary by a fifth, and
forecasts of them are off by up to a quarter.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tfwave.cost.network import Network
from tfwave.graph.names import task_of
from tfwave.graph.transfer import Transfer
from tfwave.plan.discipline import Discipline
from tfwave.plan.plan import ChannelOrder
from tfwave.sim.acks import acknowledged
from tfwave.sim.steps import SimulatedStep

ACK_SECONDS = 1.2e-3
"""From an arrival to when the sender, told of it, lets another transfer go."""
ACK_CORE_SECONDS = 0.4e-3
"""That cores work for an acknowledgement, all together."""
RELAY_SECONDS = 0.55e-3
"""For which a proxy has a tensor, beside its bytes."""
RELAYED_BYTES_PER_SECOND = 1e9
"""A proxy takes a tensor in whole before it passes it on."""


@dataclass(frozen=True)
class OrderedStep:
    """A step under orders by counter, as the hook keeps them: the hook itself takes nothing.

    Attributes:
        transfers: all of it.
        network: that it was simulated on.
        orders: what the hook keeps.
        simulated: the step.
        least_seconds: no step is shorter, whatever its order.
        cores_seconds: what the cores need for it.
    """

    transfers: Sequence[Transfer]
    network: Network
    orders: Sequence[ChannelOrder]
    simulated: SimulatedStep
    least_seconds: float
    cores_seconds: float

    @property
    def can_be_kept(self) -> bool:
        """By something else than the hook, as far as that is known: of times that are no seconds nothing is."""
        by_counter = all(order.discipline is Discipline.COUNTER for order in self.orders)
        return by_counter and self.network.card is not None

    def ack_window_seconds(self, window: int) -> float:
        """Where at most `window` transfers of a channel are under way, as the pass `ack_window` has it."""
        index = {t.key: i for i, t in enumerate(self.transfers)}
        channels = [[index[t.key] for t in order.transfers] for order in self.orders]
        job = acknowledged(self.simulated.job, channels, window, ACK_SECONDS)
        acks = sum(max(0, len(channel) - window) for channel in channels)
        shared = acks * ACK_CORE_SECONDS / self.network.cores if self.network.cores else 0.0
        return max(job.makespan(self.simulated.ranks), self.least_seconds, self.cores_seconds + shared)

    def proxy_seconds(self) -> float:
        """Where each task is behind a proxy.

        Servers answer in any order, so what should leave first may come to the proxy last: it has all that it
        orders of a step before it sends any of it. What other proxies do meanwhile is hidden behind that.
        """
        keys = {t.key for order in self.orders for t in order.transfers}
        held = max(_relay_seconds(t for t in self.transfers if t.key in keys).values(), default=0.0)
        return max(self.simulated.seconds, self.least_seconds) + held


def _relay_seconds(transfers: Iterable[Transfer]) -> dict[str, float]:
    """For which the proxy of each task has what leaves it, one tensor after the other."""
    taken: dict[str, list[float]] = defaultdict(list)
    for transfer in transfers:
        seconds = RELAY_SECONDS + transfer.bytes / RELAYED_BYTES_PER_SECOND
        taken[task_of(transfer.channel.source)].append(seconds)
    return {task: math.fsum(seconds) for task, seconds in taken.items()}
