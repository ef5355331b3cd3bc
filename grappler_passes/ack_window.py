"""Order transfers within the graph itself: nothing is needed at run time."""

from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from typing import cast

from tfwave.errors import GraphError, PassError
from tfwave.graph.attrs import KEEP
from tfwave.graph.marks import added_by
from tfwave.graph.names import Channel, TransferKey, parse_input
from tfwave.graph.ops import REF, OpTable
from tfwave.graph.partition.place import expected_places
from tfwave.graph.reach import in_control_flow
from tfwave.graph.rewriter import GraphRewriter
from tfwave.graph.step import needed_of
from tfwave.graph.view import RECV_OPS, GraphView
from tfwave.passes.base import GraphPass
from tfwave.plan.annotation import Annotation, annotated_orders
from tfwave.plan.discipline import ACK_WINDOW
from tfwave.proto.tensorflow_pb2 import DT_RESOURCE, DT_VARIANT, AttrValue, DataType


@dataclass(frozen=True)
class AckWindow(GraphPass):
    """Let at most `window` transfers of a channel be under way: each waits for the arrival of an earlier one.

    Runs on a graph that is not cut yet, with the order that `recv_priority` noted. For the k-th transfer of a
    channel, of the tensor t from device S to device D:

    1. an Identity on S, the hold, passes t on once the gate of transfer k - window has run (the acknowledgement,
       which comes back from D), and after the hold of transfer k - 1;
    2. an Identity on D, the gate, reads the hold;
    3. all that read t on D read the gate.

    The source keeps its time, and other devices read it as before. Grappler leaves holds and gates as they are.
    A window of 1 keeps the order strictly and costs a round trip per transfer; wider ones cost less and let
    neighbours overtake each other. Where the fetches are known, only transfers that they, or a function's updates,
    need are ordered. What is in a branch or a loop, or is no plain tensor, stays unordered; a remark says so.

    Raises:
        PassError: a window under 1.
    """

    window: int = ACK_WINDOW

    def __post_init__(self) -> None:
        """Refuse a window that lets nothing through."""
        if self.window < 1:
            raise PassError(f"ack_window: the window is {self.window}, it must be 1 or more")

    def requires(self, view: GraphView) -> None:
        """The graph is not cut yet."""
        recv = next((name for name, op in zip(view.names, view.ops, strict=True) if op in RECV_OPS), None)
        if recv is not None and annotated_orders(view):
            raise GraphError(
                f"node '{recv}' receives: the graph is cut already; run ack_window before 'cut', or control_edges"
            )

    def run(self, graph: GraphRewriter) -> None:
        """Put holds and gates around the transfers of each channel."""
        orders = annotated_orders(graph.view)
        if not orders:
            return
        survey = _Survey(graph, {entry.key for entries in orders.values() for entry in entries})
        left: dict[str, list[TransferKey]] = defaultdict(list)
        for channel, entries in orders.items():
            obstacles = [(entry, survey.obstacle(entry)) for entry in entries if survey.is_needed(entry)]
            for entry, obstacle in obstacles:
                if obstacle:
                    left[obstacle].append(entry.key)
            self._chain(
                graph, channel, [survey.gated(entry) for entry, obstacle in obstacles if not obstacle]
            )
        for obstacle, keys in sorted(left.items()):
            graph.remark(f"{len(keys)} transfers stay unordered, such as {min(keys)}: {obstacle}")

    def _chain(self, graph: GraphRewriter, channel: Channel, transfers: Sequence["_Gated"]) -> None:
        for k, transfer in enumerate(transfers):
            waits = [transfers[k - self.window].gate] if k >= self.window else []
            if self.window > 1 and k:
                waits.append(transfers[k - 1].hold)
            _insert(graph, channel, transfer, waits)


@dataclass(frozen=True)
class _Gated:
    """A transfer, the names of its hold and gate, and the inputs (node, position) that are to read the gate."""

    tensor: str
    kind: DataType
    hold: str
    gate: str
    readers: tuple[tuple[str, int], ...]


def _insert(graph: GraphRewriter, channel: Channel, transfer: _Gated, waits: Sequence[str]) -> None:
    if graph.has_node(transfer.gate):
        _check_ours(graph, transfer.gate)
        return
    attrs = {"T": AttrValue(type=transfer.kind), **KEEP}
    inputs = [transfer.tensor, *(f"^{name}" for name in waits)]
    graph.add_node(transfer.hold, "Identity", inputs, device=channel.source, attrs=attrs)
    graph.add_node(transfer.gate, "Identity", [transfer.hold], device=channel.destination, attrs=attrs)
    for node, position in transfer.readers:
        graph.redirect(node, position, transfer.gate)


def _check_ours(graph: GraphRewriter, gate: str) -> None:
    if added_by(graph.node(gate)) != graph.author:
        raise GraphError(f"node '{gate}' is there already, of another rewrite: strip the graph first")


class _Survey:
    """What the pass must know of a graph: where nodes run, and which may not be gated."""

    def __init__(self, graph: GraphRewriter, planned: Set[TransferKey]) -> None:
        self._graph = graph
        self._planned = planned
        self._view = graph.view
        self._index = {name: i for i, name in enumerate(self._view.names)}
        self._devices = expected_places(graph.item, graph.view)
        self._ops = OpTable.of(graph.item.graph)
        self._conditional = in_control_flow(self._view)
        self._fetched = {parse_input(name) for name in graph.item.fetches}
        self._needed = needed_of(graph.item, self._view)
        self._destinations: dict[tuple[str, int], list[str]] = defaultdict(list)
        for key in sorted(planned):
            self._destinations[key.node, key.port].append(key.channel.destination)

    def is_needed(self, entry: Annotation) -> bool:
        """Does the step need its source?"""
        return self._index[entry.node] in self._needed

    def obstacle(self, entry: Annotation) -> str:
        """Why a transfer cannot be gated; empty if it can.

        Case 1: its source does not run exactly once. Case 2: it is no plain tensor. Case 3: TensorFlow moves it
        only for what a call or a branch holds. Case 4: it moves it only because it is fetched.

        Raises:
            GraphError: the note is on another node, or names an output that is not there or does not cross.
        """
        key, source = entry.key, self._source(entry)
        if source in self._conditional:
            return "in a branch or a loop"
        kind = self._kind(source, key)
        if kind in (DT_RESOURCE, DT_VARIANT) or kind > REF:
            return "no plain tensors"
        hold, gate = self._names(key)
        if self._graph.has_node(gate) or any(self._readers(key, hold)):
            return ""
        if any(self._ops.calls_functions(self._view.nodes[n]) for n in self._view.fanouts[source]):
            return "read in functions or branches alone"
        if (key.node, key.port) in self._fetched:
            return "only fetched"
        raise GraphError(
            f"nothing on {key.channel.destination} reads '{key.node}:{key.port}': the plan was made for another "
            "graph, or for a call that fetches it (--fetch)"
        )

    def gated(self, entry: Annotation) -> _Gated:
        """The transfer of an entry that has no obstacle."""
        key = entry.key
        hold, gate = self._names(key)
        tensor = f"{key.node}:{key.port}" if key.port else key.node
        kind = cast("DataType", self._kind(self._source(entry), key))
        return _Gated(tensor, kind, hold, gate, tuple(self._readers(key, hold)))

    def _source(self, entry: Annotation) -> int:
        if entry.node != entry.key.node:
            raise GraphError(
                f"node '{entry.node}' bears the note of another node's transfer, {entry.key}: strip it"
            )
        return self._index[entry.node]

    def _names(self, key: TransferKey) -> tuple[str, str]:
        """Of the hold and the gate: they begin with the source's, and count its destinations."""
        number = self._destinations[key.node, key.port].index(key.channel.destination)
        end = f"{key.port}_{number}" if number else f"{key.port}"
        return f"{key.node}/ack_hold_{end}", f"{key.node}/ack_gate_{end}"

    def _readers(self, key: TransferKey, hold: str) -> Iterator[tuple[str, int]]:
        """The data inputs on the destination that read the tensor, or an alias of it.

        Grappler takes aliases out, so a plan made from a capture names what they read.
        """
        same = [(key.node, key.port)]
        for node, port in same:
            for name, position in self._uses(node, port):
                if self._devices[name] == key.channel.destination and name != hold:
                    yield name, position
                elif self._is_alias(name, key.channel) and name != hold:
                    same.append((name, 0))

    def _uses(self, node: str, port: int) -> Iterator[tuple[str, int]]:
        """All data inputs that read an output."""
        for reader in dict.fromkeys(self._view.fanouts[self._index[node]]):
            for position in range(self._view.data_fanins[reader]):
                if parse_input(self._view.nodes[reader].input[position]) == (node, port):
                    yield self._view.names[reader], position

    def _is_alias(self, name: str, channel: Channel) -> bool:
        """Is it an Identity beside its source that waits for nothing else, and that the plan does not name?"""
        node = self._index[name]
        return (
            self._view.ops[node] == "Identity"
            and len(self._view.fanins[node]) == 1
            and self._devices[name] == channel.source
            and TransferKey(name, 0, channel) not in self._planned
        )

    def _kind(self, source: int, key: TransferKey) -> int:
        kinds = self._ops.output_types(self._view.nodes[source])
        if key.port >= len(kinds):
            raise GraphError(f"node '{key.node}' has no output {key.port}, which the plan orders")
        return kinds[key.port]
