"""Transfers: the tensors that cross tasks, found in a view."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from tfwave.errors import GraphError
from tfwave.graph.attrs import flag_attr
from tfwave.graph.names import Channel, TransferKey, edge_source, home_of, natural_key
from tfwave.graph.view import RECV_OPS, WIRE_ATTRS, GraphView, wire_key
from tfwave.proto.tensorflow_pb2 import NodeDef


@dataclass(frozen=True)
class Transfer:
    """One tensor that crosses devices: its `_Recv`, its name on the wire and its size in bytes.

    `recv` is the index of the `_Recv` in the view; `bytes` is 0 where the graph does not say.
    """

    key: TransferKey
    node: str
    edge: str
    recv: int
    bytes: int = 0

    @property
    def channel(self) -> Channel:
        return self.key.channel

    @property
    def sort_key(self) -> tuple[object, ...]:
        """The stated tie rule: by source node (numbers in names as numbers), port and devices.

        The plain name comes last: it tells ``w1`` from ``w01``.
        """
        return natural_key(self.key.node), self.key.port, self.key.channel, self.key.node


@dataclass(frozen=True)
class Transfers:
    """All that crosses tasks into the devices of a view, each in the order of `Transfer.sort_key`."""

    data: tuple[Transfer, ...]
    control: tuple[Transfer, ...]
    """They carry no tensor, only "this has run", and are never ordered."""

    def into(self, device: str) -> "Transfers":
        """Only those whose destination is `device`."""
        return Transfers(
            tuple(t for t in self.data if t.channel.destination == device),
            tuple(t for t in self.control if t.channel.destination == device),
        )

    @property
    def destinations(self) -> tuple[str, ...]:
        """The devices that receive data, sorted."""
        return tuple(sorted({t.channel.destination for t in self.data}))


def find_transfers(view: GraphView) -> Transfers:
    """The transfers of a view.

    Left out are client feeds (`client_terminated`) and copies between devices of one task: neither crosses
    the network.

    Raises:
        GraphError: a `_Recv` without its device or tensor attributes, or two with one key.
    """
    data: list[Transfer] = []
    control: list[Transfer] = []
    for recv, op in enumerate(view.ops):
        if op not in RECV_OPS or not _crosses_tasks(view.nodes[recv]):
            continue
        transfer = _transfer(view, recv)
        (control if is_control_only(view, recv) else data).append(transfer)
    data = _number_ports(view, data)
    _refuse_duplicates(data)
    return Transfers(_sorted(data), _sorted(control))


def origins(view: GraphView, transfer: Transfer) -> list[str]:
    """The nodes that have the tensor, from its source up; each further one is what an Identity reads.

    Grappler takes such Identity ops out: TensorFlow may send the tensor under the name of any of these nodes.
    """
    send = view.sends.get(transfer.recv)
    if send is None or not view.data_fanins[send]:
        return [transfer.key.node]
    node = view.fanins[send][0]
    found = [view.names[node]]
    while view.ops[node] == "Identity":
        node = view.fanins[node][0]
        found.append(view.names[node])
    return found


def home_of_all(transfers: Sequence[Transfer]) -> str:
    """The one task to whose devices all these transfers go (see `home_of`); empty for no transfers.

    Raises:
        GraphError: they go to several.
    """
    homes = sorted({home_of(t.channel.destination) for t in transfers})
    if len(homes) > 1:
        raise GraphError(f"an order is for one task, but these transfers go to {', '.join(homes)}")
    return homes[0] if homes else ""


def ops_at(view: GraphView, home: str) -> Iterator[int]:
    """The ops that run on any device of a task, or on none that is named; receives are transfers, not ops."""
    own = [nodes for device, nodes in view.by_device.items() if home_of(device) in ("", home)]
    return (node for node in sorted(chain.from_iterable(own)) if view.ops[node] not in RECV_OPS)


def is_control_only(view: GraphView, recv: int) -> bool:
    """Whether a `_Recv` stands for a control edge: is its value never read?

    Case 1: TensorFlow reads the received dummy with an Identity that only control edges leave.
    Case 2: the `_Recv` itself has only control fanouts (a chain of receivers is none of TensorFlow's).
    """
    readers = [n for n in view.fanouts[recv] if recv in view.fanins[n][: view.data_fanins[n]]]
    if not readers:
        return any(view.ops[n] not in RECV_OPS for n in view.fanouts[recv])
    return all(view.ops[n] == "Identity" and _only_control_leaves(view, n) for n in readers)


def _only_control_leaves(view: GraphView, node: int) -> bool:
    fanouts = view.fanouts[node]
    return bool(fanouts) and all(node not in view.fanins[n][: view.data_fanins[n]] for n in fanouts)


def _crosses_tasks(node: NodeDef) -> bool:
    if flag_attr(node, "client_terminated"):
        return False
    source, destination, edge = wire_key(node)
    if not (source and destination and edge):
        raise GraphError(f"node '{node.name}': {node.op} needs the attributes {', '.join(WIRE_ATTRS)}")
    return home_of(source) != home_of(destination)


def _transfer(view: GraphView, recv: int) -> Transfer:
    node = view.nodes[recv]
    source, destination, edge = wire_key(node)
    key = TransferKey(edge_source(edge), _source_port(view, recv), Channel(source, destination))
    return Transfer(key, node.name, edge, recv)


def _source_port(view: GraphView, recv: int) -> int:
    send = view.sends.get(recv)
    if send is None or not view.data_fanins[send]:
        return 0
    _, _, port = view.nodes[send].input[0].rpartition(":")
    return int(port) if port.isdigit() else 0


def _number_ports(view: GraphView, transfers: Iterable[Transfer]) -> list[Transfer]:
    """Tell several outputs of one node apart where the sender's partition is not at hand: by edge name."""
    groups: dict[TransferKey, list[Transfer]] = defaultdict(list)
    for transfer in transfers:
        groups[transfer.key].append(transfer)
    numbered: list[Transfer] = []
    for key, group in groups.items():
        known = [t for t in group if t.recv in view.sends]
        if len(group) == 1 or known:
            numbered += group
            continue
        group.sort(key=lambda t: natural_key(t.edge))
        numbered += [replace(t, key=replace(key, port=i)) for i, t in enumerate(group)]
    return numbered


def _refuse_duplicates(transfers: Iterable[Transfer]) -> None:
    seen: dict[TransferKey, Transfer] = {}
    for transfer in transfers:
        first = seen.setdefault(transfer.key, transfer)
        if first is not transfer:
            raise GraphError(
                f"nodes '{first.node}' and '{transfer.node}' both receive {transfer.key}: only one may"
            )


def _sorted(transfers: Iterable[Transfer]) -> tuple[Transfer, ...]:
    return tuple(sorted(transfers, key=lambda t: t.sort_key))
