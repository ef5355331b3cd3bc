"""A placed graph on its way to partitions: nodes, their fanins with ports, and their devices."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from tfwave.errors import GraphError
from tfwave.graph.names import CONTROL_PORT, parse_input
from tfwave.graph.ops import OpTable
from tfwave.proto.tensorflow_pb2 import GraphDef, NodeDef

Fanin = tuple[int, int]
"""Source node and its output port; `CONTROL_PORT` for a control edge."""


@dataclass(frozen=True)
class Wiring:
    """Nodes in TensorFlow's order of insertion, by index.

    `fanins` has the data inputs first, then the control inputs by name, each once; `devices` has full names.
    The inputs and the device written in the NodeDefs count no more.
    """

    nodes: tuple[NodeDef, ...]
    names: tuple[str, ...]
    ops: tuple[str, ...]
    fanins: tuple[tuple[Fanin, ...], ...]
    devices: tuple[str, ...]
    table: OpTable

    @classmethod
    def of(cls, graph: GraphDef, devices: Callable[[str], str] | None = None) -> "Wiring":
        """Wire a graph whose nodes are in order; `devices` tells a node's device by its name.

        Raises:
            GraphError: a malformed or dangling input.
        """
        nodes = tuple(graph.node)
        names = tuple([node.name for node in nodes])
        index = {name: i for i, name in enumerate(names)}
        fanins = tuple([_fanins(node, index, names) for node in nodes])
        at = tuple([node.device for node in nodes] if devices is None else map(devices, names))
        return cls(nodes, names, tuple([node.op for node in nodes]), fanins, at, OpTable.of(graph))

    def __len__(self) -> int:
        return len(self.nodes)

    @cached_property
    def fanouts(self) -> tuple[tuple[Fanin, ...], ...]:
        """Of each node its readers, each with the port it reads, in the order of the readers."""
        fanouts: list[list[Fanin]] = [[] for _ in self.nodes]
        for node, sources in enumerate(self.fanins):
            for source, port in sources:
                fanouts[source].append((node, port))
        return tuple(map(tuple, fanouts))

    def source(self, node: int, position: int = 0) -> int:
        """The node that a data input comes from.

        Raises:
            GraphError: there is no such input; names the node.
        """
        fanins = self.fanins[node]
        if position >= len(fanins) or fanins[position][1] == CONTROL_PORT:
            raise GraphError(f"node '{self.names[node]}': {self.ops[node]} lacks its input {position}")
        return fanins[position][0]

    def output_type(self, node: int, port: int) -> int:
        """The type of an output.

        Raises:
            GraphError: an unknown op, an op that lacks an attribute, or no such output; names the node.
        """
        types = self.table.output_types(self.nodes[node])
        if not 0 <= port < len(types):
            raise GraphError(
                f"'{self.names[node]}' has {len(types)} outputs: there is no '{self.names[node]}:{port}'"
            )
        return types[port]

    def input_type(self, node: int, position: int) -> int:
        """The type of a data input.

        Raises:
            GraphError: as `output_type`.
        """
        types = self.table.input_types(self.nodes[node])
        if position >= len(types):
            raise GraphError(f"node '{self.names[node]}': {self.ops[node]} takes {len(types)} inputs")
        return types[position]

    def kept(self, nodes: Sequence[int]) -> "Wiring":
        """Only some nodes, in their order; all their fanins must be among them."""
        new = {old: i for i, old in enumerate(nodes)}
        return Wiring(
            tuple([self.nodes[i] for i in nodes]),
            tuple([self.names[i] for i in nodes]),
            tuple([self.ops[i] for i in nodes]),
            tuple([tuple([(new[source], port) for source, port in self.fanins[i]]) for i in nodes]),
            tuple([self.devices[i] for i in nodes]),
            self.table,
        )


class Draft:
    """A wiring that grows; nodes are only appended."""

    def __init__(self, wiring: Wiring) -> None:
        """Start from a wiring, which stays as it is."""
        self._wiring = wiring
        self.nodes = list(wiring.nodes)
        self.fanins = list(wiring.fanins)
        self.devices = list(wiring.devices)

    def __len__(self) -> int:
        return len(self.nodes)

    def add(self, node: NodeDef, fanins: Iterable[Fanin], device: str) -> int:
        """Append a node; its index."""
        self.nodes.append(node)
        self.fanins.append(tuple(fanins))
        self.devices.append(device)
        return len(self.nodes) - 1

    def wiring(self) -> Wiring:
        """What has been drafted."""
        added = self.nodes[len(self._wiring) :]
        return Wiring(
            tuple(self.nodes),
            (*self._wiring.names, *(node.name for node in added)),
            (*self._wiring.ops, *(node.op for node in added)),
            tuple(self.fanins),
            tuple(self.devices),
            self._wiring.table,
        )


def _fanins(node: NodeDef, index: dict[str, int], names: Sequence[str]) -> tuple[Fanin, ...]:
    data: list[Fanin] = []
    control: set[int] = set()
    for text in node.input:
        found = index.get(text)
        if found is not None:
            data.append((found, 0))
            continue
        found = index.get(text[1:]) if text.startswith("^") else None
        if found is not None:
            control.add(found)
            continue
        source, port = parse_input(text)
        if source not in index:
            raise GraphError(f"node '{node.name}': input '{text}' names a node that does not exist")
        if port == CONTROL_PORT:
            control.add(index[source])
        else:
            data.append((index[source], port))
    if not control:
        return tuple(data)
    by_name = sorted(control, key=names.__getitem__)
    return (*data, *((source, CONTROL_PORT) for source in by_name))
