"""What each server has to do in a step."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tfwave.balance.holdings import Holdings, server_of
from tfwave.cost.model import WIRE_OPS
from tfwave.cost.table import Costs
from tfwave.graph.names import task_of
from tfwave.graph.transfer import Transfer
from tfwave.graph.view import GraphView


@dataclass(frozen=True)
class ServerLoad:
    """One server in one step: what others pull from it and push to it, and what it computes.

    Seconds are those that the wire works in each direction, and that the server's ops take one after the other; 0
    where no costs are given. `share` is its wire time (its bytes, if no time is known) over that of the busiest
    server; 1 for all where none moves anything.
    """

    server: str
    variables: int
    pulled_bytes: int
    pushed_bytes: int
    pull_seconds: float
    push_seconds: float
    op_seconds: float
    share: float = 1.0

    @property
    def bytes(self) -> int:
        """Both ways."""
        return self.pulled_bytes + self.pushed_bytes

    @property
    def wire_seconds(self) -> float:
        """Both ways, one after the other: a step pulls first and pushes last."""
        return self.pull_seconds + self.push_seconds


def server_load(
    view: GraphView, transfers: Iterable[Transfer], costs: Costs | None = None, *, job: str = "ps"
) -> tuple[ServerLoad, ...]:
    """The load of each server (task of `job`) that a graph names, in the order of their numbers.

    A transfer of unknown size that reads a whole variable counts with the variable's bytes.

    Raises:
        MissingCost: `costs` does not know a transfer or an op of a server; names it.
        CostError: `costs` are of another view.
    """
    if costs is not None:
        costs.check_view(view)
    return loads_of(Holdings(view, job), transfers, costs)


def loads_of(
    holdings: Holdings, transfers: Iterable[Transfer], costs: Costs | None
) -> tuple[ServerLoad, ...]:
    """The load of each server of a view whose variables are known."""
    view, job = holdings.view, holdings.job
    pulls: dict[str, list[Transfer]] = defaultdict(list)
    pushes: dict[str, list[Transfer]] = defaultdict(list)
    for transfer in holdings.sized(transfers):
        pulls[task_of(transfer.channel.source)].append(transfer)
        pushes[task_of(transfer.channel.destination)].append(transfer)
    variables = {(task_of(view.nodes[n].device), held.name) for n, held in holdings.held.items()}
    tasks = {task_of(d) for d in {n.device for n in view.nodes}} | pulls.keys() | pushes.keys()
    servers = {task: number for task in tasks if (number := server_of(task, job)) is not None}
    loads = [
        ServerLoad(
            task,
            sum(holder == task for holder, _ in variables),
            sum(t.bytes for t in pulls[task]),
            sum(t.bytes for t in pushes[task]),
            _wire_seconds(pulls[task], costs),
            _wire_seconds(pushes[task], costs),
            _op_seconds(view, task, costs),
        )
        for task in sorted(servers, key=lambda task: (servers[task], task))
    ]
    return _with_shares(loads)


def transfer_seconds(transfer: Transfer, costs: Costs | None) -> float:
    """Seconds of a transfer; 0 without costs."""
    return costs.transfer_seconds(transfer) if costs else 0.0


def _wire_seconds(transfers: Iterable[Transfer], costs: Costs | None) -> float:
    return math.fsum(transfer_seconds(t, costs) for t in transfers)


def _op_seconds(view: GraphView, task: str, costs: Costs | None) -> float:
    if costs is None:
        return 0.0
    own = (n for n, op in enumerate(view.ops) if op not in WIRE_OPS and task_of(view.nodes[n].device) == task)
    return math.fsum(costs.op_seconds(node) for node in own)


def _with_shares(loads: Sequence[ServerLoad]) -> tuple[ServerLoad, ...]:
    timed = any(load.wire_seconds for load in loads)
    measures = [load.wire_seconds if timed else load.bytes for load in loads]
    most = max(measures, default=0)
    shares = [measure / most if most else 1.0 for measure in measures]
    return tuple(replace(load, share=share) for load, share in zip(loads, shares, strict=True))
