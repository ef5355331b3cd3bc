"""Another number of servers: the variables dealt anew, with the ops that belong to them."""

from collections.abc import Iterable, Mapping, Sequence

from tfwave.balance.holdings import Holdings, server_of
from tfwave.balance.solve import balance
from tfwave.balance.variable import Variable
from tfwave.balance.variables import placeable
from tfwave.graph.names import natural_key, task_of
from tfwave.graph.view import GraphView
from tfwave.whatif.layout import Layout, Place, lay_out, numbered


def servers_of(layout: Layout, job: str) -> list[str]:
    """The tasks of the servers' job that nodes or transfers name, sorted by their numbers."""
    channels = [t.channel for t in layout.transfers.data]
    devices = {*layout.devices(), *(c.source for c in channels), *(c.destination for c in channels)}
    tasks = {task_of(device) for device in devices if server_of(device, job) is not None}
    return sorted(tasks, key=natural_key)


def deal(layout: Layout, job: str, servers: int, *, balanced: bool = False) -> Layout:
    """Variables in turn to so many servers, in the order of their names, as TensorFlow does in that of creation.

    Or balanced by their bytes. A variable's followers, such as slots, go with it. So do the ops of servers: each
    with the nearest variable along the edges on its task, of several as near with the first by name. Between
    variables that were on one server, edges stay free.

    Raises:
        GraphError: no variable is on a server.
    """
    holdings = Holdings(layout.view, job)
    variables = placeable(holdings, layout.transfers.data, None)
    dealt = balance(variables, servers).placement.variables if balanced else _in_turn(variables, servers)
    devices = layout.devices()
    start = {node: dealt[held.name] for node, held in holdings.held.items()}
    nearest = _nearest(layout.view, devices, start, job)
    places = [
        Place(node, _on_server(device, nearest.get(node), job, servers))
        for node, device in enumerate(devices)
    ]
    return lay_out(layout, places)


def _in_turn(variables: Iterable[Variable], servers: int) -> dict[str, int]:
    ordered = sorted(variables, key=lambda v: (natural_key(v.name), v.name))
    return {name: i % servers for i, v in enumerate(ordered) for name in v.names}


def _nearest(view: GraphView, devices: Sequence[str], start: Mapping[int, int], job: str) -> dict[int, int]:
    """The server of each op of a server that a variable can be reached from."""
    tasks = [task_of(device) if server_of(device, job) is not None else "" for device in devices]
    found = dict(start)
    ring = sorted(start, key=lambda n: (natural_key(view.names[n]), view.names[n], devices[n]))
    while ring:
        reached: dict[int, int] = {}
        for node in ring:
            for other in (*view.fanins[node], *view.fanouts[node]):
                if other not in found and tasks[other] and tasks[other] == tasks[node]:
                    reached.setdefault(other, found[node])
        found |= reached
        ring = list(reached)
    return found


def _on_server(device: str, server: int | None, job: str, servers: int) -> str:
    """What belongs to no variable stays, as far as its server is still there."""
    now = server_of(device, job)
    if now is None:
        return device
    return numbered(device, now % servers if server is None else server)
