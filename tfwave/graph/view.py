"""GraphView: integer-indexed structure of a graph, or of all partitions of one job, for analysis only."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from sys import intern
from typing import TYPE_CHECKING

from tfwave.errors import GraphError
from tfwave.graph.attrs import string_attr
from tfwave.graph.flow_ops import MERGE_OPS, NEXT_OPS
from tfwave.graph.names import CONTROL_PORT, parse_input
from tfwave.proto.tensorflow_pb2 import GraphDef, NodeDef

if TYPE_CHECKING:
    from networkx import MultiDiGraph

SEND_OPS = frozenset({"_Send", "_HostSend"})
RECV_OPS = frozenset({"_Recv", "_HostRecv"})
WIRE_ATTRS = ("send_device", "recv_device", "tensor_name")


@dataclass(frozen=True)
class GraphView:
    """Nodes by index with their fanins and fanouts, control edges included.

    Partitions of one job are joined: each `_Send` is a fanin of its `_Recv`. Fanins keep the order of the
    node's inputs, so that data inputs come first and repeated inputs stay repeated; `data_fanins[i]` says how
    many of `fanins[i]` are data. The back edges of while loops (NextIteration -> Merge) are left out of
    `topological_order`, and of nothing else.
    """

    nodes: tuple[NodeDef, ...]
    names: tuple[str, ...]
    ops: tuple[str, ...]
    fanins: tuple[tuple[int, ...], ...]
    data_fanins: tuple[int, ...]
    fanouts: tuple[tuple[int, ...], ...]
    sends: dict[int, int]
    """`_Recv` -> `_Send`, where the sender's partition is part of the view."""

    @classmethod
    def of(cls, *partitions: GraphDef) -> "GraphView":
        """Index one graph, or several partitions of one job.

        Raises:
            GraphError: no node, a missing, duplicate or dangling name, a malformed input, data after a control
                input.
        """
        return _build(partitions)

    def __len__(self) -> int:
        return len(self.nodes)

    @cached_property
    def topological_order(self) -> tuple[int, ...]:
        """Node indices, each after all its fanins.

        Raises:
            GraphError: a cycle that is not a while loop; names its nodes.
        """
        pending = [len(self.forward_fanins(i)) for i in range(len(self))]
        order = [i for i, count in enumerate(pending) if not count]
        for node in order:
            for fanout in self.fanouts[node]:
                if self._is_back_edge(node, fanout):
                    continue
                pending[fanout] -= 1
                if not pending[fanout]:
                    order.append(fanout)
        if len(order) < len(self):
            raise GraphError(f"the graph has a cycle: {' -> '.join(self._find_cycle(pending))}")
        return tuple(order)

    @cached_property
    def places(self) -> tuple[int, ...]:
        """Per node: its place in `topological_order`."""
        places = [0] * len(self)
        for place, node in enumerate(self.topological_order):
            places[node] = place
        return tuple(places)

    @cached_property
    def by_device(self) -> Mapping[str, Sequence[int]]:
        """The nodes of each device that any names, ascending; those that name none are under the empty string."""
        nodes: dict[str, list[int]] = defaultdict(list)
        for i, node in enumerate(self.nodes):
            nodes[node.device].append(i)
        return dict(nodes)

    @cached_property
    def levels(self) -> tuple[int, ...]:
        """Per node: the edges on the longest path that leads to it."""
        levels = [0] * len(self)
        for node in self.topological_order:
            fanins = self.forward_fanins(node)
            if fanins:
                levels[node] = 1 + max([levels[f] for f in fanins])
        return tuple(levels)

    def forward_fanins(self, node: int) -> Sequence[int]:
        """The fanins of a node without the back edges of while loops."""
        if self.ops[node] not in MERGE_OPS:
            return self.fanins[node]
        return [f for f in self.fanins[node] if not self._is_back_edge(f, node)]

    def to_networkx(self, sizes: Mapping[int, int] | None = None) -> "MultiDiGraph[int]":
        """The same structure for networkx's algorithms: an edge for each input, from its source.

        Nodes are indices, as `Transfer.recv` is one, with `name`, `op` and `device`, and with `bytes` where `sizes`
        knows them by index. Edges have `port`, the output that is read (-1: none), and `control`, whether they are
        control edges. A `_Send` has an edge to its `_Recv`. A while loop is a cycle.
        """
        from networkx import MultiDiGraph

        graph: MultiDiGraph[int] = MultiDiGraph()
        for i, node in enumerate(self.nodes):
            known = {"bytes": sizes[i]} if sizes and i in sizes else {}
            graph.add_node(i, name=node.name, op=node.op, device=node.device, **known)
        for i, node in enumerate(self.nodes):
            ports = [parse_input(text).port for text in node.input]
            for source, port in zip_longest(self.fanins[i], ports, fillvalue=0):
                graph.add_edge(source, i, port=port, control=port == CONTROL_PORT)
        return graph

    def _is_back_edge(self, source: int, target: int) -> bool:
        return self.ops[target] in MERGE_OPS and self.ops[source] in NEXT_OPS

    def _find_cycle(self, pending: Sequence[int]) -> list[str]:
        node = min((i for i, count in enumerate(pending) if count), key=lambda i: self.names[i])
        trail: dict[int, None] = {}
        while node not in trail:
            trail[node] = None
            node = min((f for f in self.forward_fanins(node) if pending[f]), key=lambda i: self.names[i])
        cycle = list(trail)[list(trail).index(node) :]
        names = [self.names[i] for i in reversed(cycle)]
        return [*_shortened(names), names[0]]


def _build(partitions: Iterable[GraphDef]) -> GraphView:
    nodes: list[NodeDef] = []
    names: list[str] = []
    fanins: list[tuple[int, ...]] = []
    data_fanins: list[int] = []
    for partition in partitions:
        own = list(partition.node)
        index = _index_names(own, len(nodes))
        for node in own:
            inputs, data = _resolve_inputs(node, index)
            fanins.append(inputs)
            data_fanins.append(data)
        nodes += own
        names += index
    if not nodes:
        raise GraphError("the graph has no nodes")
    ops = tuple([intern(node.op) for node in nodes])
    sends = _match_sends(nodes, ops)
    for recv, send in sends.items():
        fanins[recv] = (*fanins[recv], send)
    return GraphView(
        tuple(nodes), tuple(names), ops, tuple(fanins), tuple(data_fanins), transposed(fanins), sends
    )


def _index_names(nodes: Sequence[NodeDef], start: int) -> dict[str, int]:
    index = {node.name: i for i, node in enumerate(nodes, start)}
    if "" in index:
        raise GraphError(f"the node at place {index['']} ({nodes[index[''] - start].op}) has no name")
    if len(index) < len(nodes):
        name = next(name for name, count in Counter(n.name for n in nodes).items() if count > 1)
        raise GraphError(f"node name '{name}' is used more than once")
    return index


def _resolve_inputs(node: NodeDef, index: dict[str, int]) -> tuple[tuple[int, ...], int]:
    resolved: list[int] = []
    data = 0
    for text in node.input:
        found = index.get(text)
        port = 0
        if found is None:
            source, port = _parse(node, text)
            found = index.get(source)
            if found is None:
                raise GraphError(f"node '{node.name}': input '{text}' names a node that does not exist")
        if port == CONTROL_PORT:
            resolved.append(found)
        elif data < len(resolved):
            raise GraphError(f"node '{node.name}': data input '{text}' comes after a control input")
        else:
            resolved.append(found)
            data += 1
    return tuple(resolved), data


def _parse(node: NodeDef, text: str) -> tuple[str, int]:
    try:
        return parse_input(text)
    except GraphError as error:
        raise GraphError(f"node '{node.name}': {error}") from error


def _match_sends(nodes: Sequence[NodeDef], ops: Sequence[str]) -> dict[int, int]:
    sends = {wire_key(nodes[i]): i for i, op in enumerate(ops) if op in SEND_OPS}
    if not sends:
        return {}
    recvs = [i for i, op in enumerate(ops) if op in RECV_OPS]
    return {i: sends[key] for i in recvs if (key := wire_key(nodes[i])) in sends}


def wire_key(node: NodeDef) -> tuple[str, ...]:
    """(send device, recv device, tensor name): what a `_Send` and its `_Recv` share."""
    return tuple([string_attr(node, name) for name in WIRE_ATTRS])


def transfer_ends(view: GraphView) -> list[str]:
    """The names of the nodes that send or receive: there are none in a graph that is not cut."""
    ends = SEND_OPS | RECV_OPS
    return [name for name, op in zip(view.names, view.ops, strict=True) if op in ends]


def transposed(fanins: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """The fanouts of each node, by number, where these are its fanins."""
    fanouts: list[list[int]] = [[] for _ in fanins]
    for node, sources in enumerate(fanins):
        for source in sources:
            fanouts[source].append(node)
    return tuple(map(tuple, fanouts))


def _shortened(names: list[str], limit: int = 6) -> list[str]:
    return names if len(names) <= limit else [*names[: limit - 1], f"... {len(names) - limit} more ..."]
