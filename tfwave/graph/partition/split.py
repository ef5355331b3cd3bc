"""Splitting: one GraphDef for each place, with a `_Send` and a `_Recv` for each edge between two."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tfwave.graph.names import CONTROL_PORT
from tfwave.graph.partition.loops import Namer, empty_constant, is_control_loop
from tfwave.graph.partition.prune import INCARNATION
from tfwave.graph.partition.signatures import as_type, is_ref
from tfwave.graph.partition.wiring import Fanin, Wiring
from tfwave.proto.tensorflow_pb2 import DT_FLOAT, GraphDef, NodeDef


def split(
    wiring: Wiring, new_name: Namer, place_of: Callable[[str], str] = lambda device: device
) -> dict[str, GraphDef]:
    """Split a wiring; its control loops are there already.

    Args:
        wiring: every node with its full device.
        new_name: makes the names of the nodes that are added.
        place_of: the place of a device: the device itself, or its task.

    Returns:
        The graphs by place. They carry no versions and no library.

    Raises:
        GraphError: an unknown op at the border between two places, or one that lacks an attribute.
    """
    splitter = _Splitter(wiring, new_name, place_of)
    for node in range(len(wiring)):
        splitter.add(node)
    return dict(splitter.partitions)


@dataclass
class _Reader:
    """A node in its partition, while its inputs are being written."""

    node: int
    made: NodeDef
    place: str
    loop: str = ""
    """The Merge of the node's control loop, which its `_Recv`s wait for."""
    unused: int = 0
    """How often the loop's Merge has not yet been handed to a `_Recv`."""
    ref_recvs: list[NodeDef] = field(default_factory=list[NodeDef])
    others: list[str] = field(default_factory=list[str])


class _Splitter:
    """Writes the partitions, node by node.

    Case 1: an edge inside a place becomes an input.
    Case 2: an edge whose tensor or control is at its reader's place already shares that `_Recv`.
    Case 3: a tensor is sent and received.
    Case 4: for a control edge an empty constant is sent, and an Identity reads what is received.
    Case 5: a reference that is read as a value is received for each reader anew, after its other inputs.
    """

    def __init__(self, wiring: Wiring, new_name: Namer, place_of: Callable[[str], str]) -> None:
        self.partitions: defaultdict[str, GraphDef] = defaultdict(GraphDef)
        self._wiring = wiring
        self._new_name = new_name
        places = {device: place_of(device) for device in set(wiring.devices)}
        self._places = [places[device] for device in wiring.devices]
        self._received: dict[tuple[Fanin, str], str] = {}
        """What reads a tensor at a place where it has been received."""
        self._edges = 0

    def add(self, node: int) -> None:
        """Write a node and what its inputs need."""
        wiring = self._wiring
        reader = _Reader(node, self._copy(node), self._places[node])
        loop_edges: list[int] = []
        inputs: list[tuple[int, Fanin]] = []
        for position, (source, port) in enumerate(wiring.fanins[node]):
            if port == CONTROL_PORT and is_control_loop(wiring.names[source], wiring.ops[source]):
                loop_edges.append(source)
            else:
                inputs.append((position, (source, port)))
        if loop_edges:
            reader.loop, reader.unused = wiring.names[loop_edges[-1]], len(loop_edges)
        for position, fanin in inputs:
            self._edges += 1
            self._connect(reader, position, fanin)
        for recv in reader.ref_recvs:
            recv.input.extend(f"^{name}" for name in reader.others)
        if reader.unused > 0:
            reader.made.input.append(f"^{reader.loop}")

    def _copy(self, node: int) -> NodeDef:
        made = self.partitions[self._places[node]].node.add()
        made.CopyFrom(self._wiring.nodes[node])
        made.device = self._wiring.devices[node]
        del made.input[:]
        return made

    def _connect(self, reader: _Reader, position: int, fanin: Fanin) -> None:
        source, port = fanin
        is_reference = port != CONTROL_PORT and self._makes_reference(reader, fanin)
        if self._places[source] == reader.place:
            reader.made.input.append(_input(self._wiring.names[source], port))
            if not is_reference:
                reader.others.append(self._wiring.names[source])
            return
        received = None if is_reference else self._received.get((fanin, reader.place))
        if received is None:
            received, recv = self._transfer(reader, position, fanin)
            if is_reference:
                recv.attr["_start_time"].i = 0
                reader.ref_recvs.append(recv)
            else:
                self._received[fanin, reader.place] = received
        if not is_reference:
            reader.others.append(received)
        reader.made.input.append(_input(received, min(port, 0)))

    def _makes_reference(self, reader: _Reader, fanin: Fanin) -> bool:
        source, port = fanin
        if self._places[source] == reader.place:
            return False
        return is_ref(self._wiring.output_type(source, port))

    def _transfer(self, reader: _Reader, position: int, fanin: Fanin) -> tuple[str, NodeDef]:
        """Add a `_Send` and a `_Recv`; the name of what is to be read, and the `_Recv`."""
        source, port = fanin
        name = self._wiring.names[source]
        if port == CONTROL_PORT:
            kind, sent = as_type(DT_FLOAT), self._add_dummy(source)
        else:
            kind = as_type(self._wiring.input_type(reader.node, position))
            sent = _input(name, port)
        sender = self._wiring.devices[source]
        send = self.partitions[self._places[source]].node.add(
            name=self._new_name(name), op="_Send", device=sender, input=[sent]
        )
        send.attr["T"].type = kind
        recv = self.partitions[reader.place].node.add(
            name=self._new_name(name), op="_Recv", device=reader.made.device
        )
        recv.attr["tensor_type"].type = kind
        for end in (send, recv):
            self._address(end, source, reader)
        received = self._add_identity(recv, name, reader.place) if port == CONTROL_PORT else recv.name
        if reader.loop:
            recv.input.append(f"^{reader.loop}")
            reader.unused -= 1
        return received, recv

    def _add_dummy(self, source: int) -> str:
        name = self._wiring.names[source]
        dummy = empty_constant(self._new_name(f"{name}/ctrl"))
        dummy.device = self._wiring.devices[source]
        dummy.input.append(f"^{name}")
        self.partitions[self._places[source]].node.append(dummy)
        return dummy.name

    def _add_identity(self, recv: NodeDef, source: str, place: str) -> str:
        identity = self.partitions[place].node.add(
            name=self._new_name(source), op="Identity", device=recv.device, input=[recv.name]
        )
        identity.attr["T"].type = DT_FLOAT
        return identity.name

    def _address(self, end: NodeDef, source: int, reader: _Reader) -> None:
        name = self._wiring.names[source]
        texts: Mapping[str, str] = {
            "tensor_name": f"edge_{self._edges}_{name}",
            "send_device": self._wiring.devices[source],
            "recv_device": reader.made.device,
            "_src": name,
            "_dst": reader.made.name,
        }
        for key, text in texts.items():
            end.attr[key].s = text.encode()
        end.attr["send_device_incarnation"].i = INCARNATION
        end.attr["client_terminated"].b = False


def _input(node: str, port: int) -> str:
    if port == CONTROL_PORT:
        return f"^{node}"
    return f"{node}:{port}" if port else node
