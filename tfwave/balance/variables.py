"""The variables of a graph, as a placement is decided by."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

from tfwave.balance.holdings import Held, Holdings, server_of
from tfwave.balance.load import transfer_seconds
from tfwave.balance.variable import Variable
from tfwave.cost.table import Costs
from tfwave.errors import GraphError
from tfwave.graph.transfer import Transfer
from tfwave.graph.view import GraphView


def variables_of(
    view: GraphView, transfers: Iterable[Transfer], costs: Costs | None = None, *, job: str = "ps"
) -> tuple[Variable, ...]:
    """The variables on the servers (tasks of `job`) of a graph, sorted by name.

    What a transfer carries counts for the variable that it serves, in equal parts for several. The need of a
    variable is the longest-path level of the first op that reads it on another task; where none reads it, a rank
    behind all others. A transfer of unknown size that reads a whole variable counts with the variable's bytes.

    Raises:
        GraphError: no variable on a server.
        MissingCost: `costs` does not know a transfer; names it.
        CostError: `costs` are of another view.
    """
    if costs is not None:
        costs.check_view(view)
    return placeable(Holdings(view, job), transfers, costs)


def placeable(holdings: Holdings, transfers: Iterable[Transfer], costs: Costs | None) -> tuple[Variable, ...]:
    """The variables of a view in which they are known."""
    groups: dict[str, list[tuple[int, Held]]] = defaultdict(list)
    for node, held in holdings.held.items():
        groups[held.leader or held.name].append((node, held))
    if not groups:
        raise GraphError(
            f"no variable is on a server (a task of the job '{holdings.job}'): give the whole graph, not "
            "a worker's partition, or a capture of a job with servers; --job names them"
        )
    moved = _Moved(holdings, transfers, costs)
    found = (_variable(leader, group, holdings, moved) for leader, group in groups.items())
    return tuple(sorted(found, key=lambda v: v.name))


class _Moved:
    """What was moved for each variable."""

    def __init__(self, holdings: Holdings, transfers: Iterable[Transfer], costs: Costs | None) -> None:
        view = holdings.view
        levels = view.levels
        self.never = float(max(levels) + 1)
        self.bytes: dict[str, int] = defaultdict(int)
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.needs: dict[str, float] = {}
        for transfer in holdings.sized(transfers):
            served = holdings.served(transfer)
            for name, part in zip(served, _parts(transfer.bytes, len(served)), strict=True):
                self.bytes[name] += part
                self.seconds[name].append(transfer_seconds(transfer, costs) / len(served))
                if server_of(transfer.channel.source, holdings.job) is not None:
                    read = min(
                        (levels[n] for n in view.fanouts[transfer.recv]), default=levels[transfer.recv]
                    )
                    self.needs[name] = min(float(read), self.needs.get(name, self.never))


def _variable(leader: str, group: Sequence[tuple[int, Held]], holdings: Holdings, moved: _Moved) -> Variable:
    names = sorted({held.name for _, held in group} - {leader})
    servers = {server_of(holdings.view.nodes[node].device, holdings.job) for node, _ in group}
    return Variable(
        leader,
        sum(moved.bytes[name] for name in (leader, *names)),
        min(moved.needs.get(name, moved.never) for name in (leader, *names)),
        sum({held.name: held.resident_bytes for _, held in group}.values()),
        math.fsum(seconds for name in (leader, *names) for seconds in moved.seconds[name]),
        servers.pop() if len(servers) == 1 else None,
        tuple(names),
    )


def _parts(total: int, count: int) -> list[int]:
    """Equal parts of a whole number; what is left over goes to the first."""
    return [total // count + (i < total % count) for i in range(count)] if count else []
