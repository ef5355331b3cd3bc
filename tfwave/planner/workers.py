"""Which devices pull: where a step's transfers go at first; and what their servers have to do."""

import math
from collections import defaultdict
from collections.abc import Sequence

from tfwave.cost.network import Network
from tfwave.errors import PlanError
from tfwave.graph.access import VARIABLE_OPS
from tfwave.graph.names import task_of
from tfwave.graph.transfer import Transfer
from tfwave.graph.view import GraphView
from tfwave.order.deps import upstream_transfers


def pulling_devices(
    view: GraphView, transfers: Sequence[Transfer], upstream: Sequence[int] | None = None
) -> frozenset[str]:
    """The devices that something can reach at the very start of a step: workers.

    Where all that arrives has waited for other transfers, such as gradients at a server, a counter would only idle
    the link. Servers get small things from each other at once, such as a learning rate: devices that hold variables
    count only where all do.

    Args:
        view: the graph, all partitions joined.
        transfers: of its data.
        upstream: what `upstream_transfers` says of them, if it is known.
    """
    waits = upstream_transfers(view, transfers) if upstream is None else upstream
    early = frozenset(t.channel.destination for i, t in enumerate(transfers) if waits[t.recv] == 1 << i)
    holding = {node.device for node in view.nodes if node.op in VARIABLE_OPS}
    return early - holding or early


def check_workers(workers: int) -> None:
    """Raises: PlanError: so many workers cannot run a step each."""
    if not (isinstance(workers, int) and workers >= 1):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise PlanError(f"workers={workers!r} cannot run a step each: give a whole number of at least 1")


def busiest_server(view: GraphView, transfers: Sequence[Transfer], network: Network) -> tuple[float, float]:
    """What it sends and receives, in seconds; none, where nobody pulls."""
    pulling = {task_of(device) for device in pulling_devices(view, transfers)}
    sends: dict[str, list[float]] = defaultdict(list)
    receives: dict[str, list[float]] = defaultdict(list)
    for transfer in transfers:
        seconds = network.card_seconds(transfer)
        sends[task_of(transfer.channel.source)].append(seconds)
        receives[task_of(transfer.channel.destination)].append(seconds)
    servers = (sends.keys() | receives.keys()) - pulling
    loads = [(math.fsum(sends[task]), math.fsum(receives[task])) for task in sorted(servers)]
    return max(loads, key=max, default=(0.0, 0.0))
