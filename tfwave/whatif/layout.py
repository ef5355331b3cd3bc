"""A job laid out anew: its nodes on other devices, left out, or several times."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tfwave.graph.names import Channel, home_of
from tfwave.graph.transfer import Transfer, Transfers
from tfwave.graph.view import GraphView, transposed
from tfwave.proto.tensorflow_pb2 import NodeDef

_NUMBER = re.compile(r"/task:\d+")


@dataclass(frozen=True)
class Layout:
    """Only for analysis: its nodes have names, ops and devices, but no attributes where they are not as captured.

    `origins` tells the captured node of each node.
    """

    view: GraphView
    transfers: Transfers
    origins: Sequence[int]

    @classmethod
    def captured(cls, view: GraphView, transfers: Transfers) -> "Layout":
        """As it is."""
        return cls(view, transfers, range(len(view)))

    def devices(self) -> list[str]:
        """Of each node: of a receive where its transfer goes, of what names none the only one that receives."""
        there = self.transfers.destinations
        home = there[0] if len(there) == 1 else ""
        devices = [node.device or home for node in self.view.nodes]
        for transfer in (*self.transfers.data, *self.transfers.control):
            devices[transfer.recv] = transfer.channel.destination
        return devices


@dataclass(frozen=True)
class Place:
    """Where a node of a layout goes. Nodes of one copy are joined with each other only."""

    node: int
    device: str
    copy: int = 0


def numbered(device: str, task: int) -> str:
    """The same device of another task of its job."""
    return _NUMBER.sub(f"/task:{task}", device, count=1)


def lay_out(layout: Layout, places: Sequence[Place]) -> Layout:
    """The layout with its nodes in these places; transfers that stay within a task are none any more."""
    old = layout.view
    index = {(place.copy, place.node): i for i, place in enumerate(places)}
    fanins: list[tuple[int, ...]] = []
    data_fanins: list[int] = []
    for place in places:
        kept = [i for i, f in enumerate(old.fanins[place.node]) if (place.copy, f) in index]
        fanins.append(tuple(index[place.copy, old.fanins[place.node][i]] for i in kept))
        data_fanins.append(sum(i < old.data_fanins[place.node] for i in kept))
    nodes = tuple(_placed(old.nodes[place.node], place) for place in places)
    view = GraphView(
        nodes,
        tuple(node.name for node in nodes),
        tuple(old.ops[place.node] for place in places),
        tuple(fanins),
        tuple(data_fanins),
        transposed(fanins),
        _sends(old, places, index),
    )
    found = Transfers(
        _moved(layout.transfers.data, places, view), _moved(layout.transfers.control, places, view)
    )
    return Layout(view, found, [layout.origins[place.node] for place in places])


def _placed(node: NodeDef, place: Place) -> NodeDef:
    if node.device == place.device and not place.copy:
        return node
    return NodeDef(name=_named(node.name, place.copy), op=node.op, device=place.device)


def _named(name: str, copy: int) -> str:
    return f"{name}@{copy}" if copy else name


def _sends(old: GraphView, places: Sequence[Place], index: Mapping[tuple[int, int], int]) -> dict[int, int]:
    return {
        recv: index[place.copy, send]
        for recv, place in enumerate(places)
        if (send := old.sends.get(place.node)) is not None and (place.copy, send) in index
    }


def _moved(transfers: Iterable[Transfer], places: Sequence[Place], view: GraphView) -> tuple[Transfer, ...]:
    by_recv = {transfer.recv: transfer for transfer in transfers}
    moved: list[tuple[Transfer, Channel]] = []
    for recv, place in enumerate(places):
        transfer = by_recv.get(place.node)
        if transfer is None:
            continue
        send = view.sends.get(recv)
        source = transfer.channel.source if send is None else places[send].device
        if home_of(source) != home_of(place.device):
            moved.append((_retold(transfer, recv, place, source), transfer.channel))
    return tuple(sorted(_told_apart(moved), key=lambda t: t.sort_key))


def _retold(transfer: Transfer, recv: int, place: Place, source: str) -> Transfer:
    key = replace(
        transfer.key,
        node=_named(transfer.key.node, place.copy),
        channel=Channel(source, place.device),
    )
    names = _named(transfer.node, place.copy), _named(transfer.edge, place.copy)
    return Transfer(key, *names, recv, transfer.bytes)


def _told_apart(moved: Sequence[tuple[Transfer, Channel]]) -> list[Transfer]:
    """Transfers of one name that came from different channels into one keep the old channel in their names."""
    keys = Counter(transfer.key for transfer, _ in moved)
    edges = Counter((transfer.edge, transfer.channel) for transfer, _ in moved)
    return [
        _with_channel(transfer, captured)
        if keys[transfer.key] > 1 or edges[transfer.edge, transfer.channel] > 1
        else transfer
        for transfer, captured in moved
    ]


def _with_channel(transfer: Transfer, captured: Channel) -> Transfer:
    node = f"{transfer.key.node} ({captured})"
    return replace(transfer, key=replace(transfer.key, node=node), edge=f"{transfer.edge} ({captured})")
