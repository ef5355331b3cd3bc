"""GraphRewriter: the one editor of graphs. It works on a copy, logs each edit, and marks what it changes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from tfwave.errors import GraphError
from tfwave.graph import marks
from tfwave.graph.edits import (
    AttrSet,
    ControlEdgeAdded,
    DeviceChanged,
    Edit,
    InputRedirected,
    InputsReplaced,
    NodeAdded,
    NodeRemoved,
)
from tfwave.graph.item import GraphItem
from tfwave.graph.names import parse_input
from tfwave.graph.verify import verify
from tfwave.graph.view import GraphView
from tfwave.proto.tensorflow_pb2 import AttrValue, GraphDef, NodeDef


class GraphRewriter:
    """Edits a copy of a graph; what is asked for twice is done once.

    The input's proto is never touched. Every changed node remembers what it was (`tfwave.graph.marks`), so that
    `undo` can take back all rewrites that a graph ever went through.
    """

    def __init__(self, item: GraphItem, author: str = "tfwave", view: GraphView | None = None) -> None:
        """Edit `item` in the name of `author`, a pass with its options; `view` saves indexing it again."""
        self.item = item
        self.author = author
        self.edits: list[Edit] = []
        self.remarks: list[str] = []
        self._feeds, self._fetches = item.feeds, item.fetches
        self._view = view

    @cached_property
    def view(self) -> GraphView:
        """The structure of the graph as it came in: edits do not show in it."""
        return self._view or verify(self.item)

    @cached_property
    def _graph(self) -> GraphDef:
        copy = GraphDef()
        copy.CopyFrom(self.item.graph)
        return copy

    @cached_property
    def _nodes(self) -> dict[str, NodeDef]:
        return dict(zip(self.view.names, self._graph.node, strict=True))

    @cached_property
    def _kept(self) -> frozenset[str]:
        tensors = (*self.item.feeds, *self.item.fetches)
        return self.item.preserve | {parse_input(name).node for name in tensors}

    def has_node(self, name: str) -> bool:
        """Whether a node of that name is there now."""
        return name in self._nodes

    def node(self, name: str) -> NodeDef:
        """A node in its present state, to be read only.

        Raises:
            GraphError: there is none of that name.
        """
        found = self._nodes.get(name)
        if found is None:
            raise GraphError(f"the graph has no node '{name}'")
        return found

    def add_node(
        self,
        name: str,
        op: str,
        inputs: Iterable[str] = (),
        *,
        device: str = "",
        attrs: Mapping[str, AttrValue] | None = None,
    ) -> str:
        """Add a node, marked as the author's; returns its name.

        Raises:
            GraphError: another node has that name.
        """
        self.insert(NodeDef(name=name, op=op, input=inputs, device=device, attr=dict(attrs or {})))
        return name

    def insert(self, node: NodeDef) -> None:
        """Add a copy of a node, marked as the author's.

        Raises:
            GraphError: another node has that name.
        """
        copy = _copy(node)
        copy.attr[marks.ADDED_BY].s = self.author.encode()
        there = self._nodes.get(node.name)
        if there is None:
            self._put(copy)
        elif there != copy:
            way_out = "strip the graph first" if marks.is_added(there) else "rename yours"
            raise GraphError(f"node '{node.name}' cannot be added, another one has that name: {way_out}")

    def remove_node(self, name: str) -> None:
        """Take a node out, and remember it; what reads it must be redirected by the same pass.

        Raises:
            GraphError: there is none of that name, or it is fed, fetched or to be preserved.
        """
        if name in self._kept:
            raise GraphError(f"node '{name}' cannot be removed: it is fed, fetched or to be preserved")
        self._retire(name)

    def replace_node(self, node: NodeDef) -> None:
        """Put another node in the place of the one that has its name.

        Raises:
            GraphError: there is none of that name.
        """
        self._retire(node.name)
        self.insert(node)

    def add_control_edge(self, source: str, target: str) -> None:
        """Make `target` wait for `source`, node names."""
        node = self.node(target)
        text = f"^{self.node(source).name}"
        if text in node.input:
            return
        _remember_inputs(node)
        node.input.append(text)
        self.edits.append(ControlEdgeAdded(source, target))

    def redirect(self, target: str, position: int, tensor: str) -> None:
        """Let the data input at `position` of the node `target` read `tensor`."""
        node = self.node(target)
        self.node(parse_input(tensor).node)
        before = node.input[position]
        if before == tensor:
            return
        _remember_inputs(node)
        node.input[position] = tensor
        self.edits.append(InputRedirected(target, position, before, tensor))

    def replace_inputs(self, target: str, inputs: Sequence[str]) -> None:
        """Give the node `target` other inputs, data before control."""
        node = self.node(target)
        before = tuple(node.input)
        if before == tuple(inputs):
            return
        _remember_inputs(node)
        node.ClearField("input")
        node.input.extend(inputs)
        self.edits.append(InputsReplaced(target, before, tuple(inputs)))

    def move(self, name: str, device: str) -> None:
        """Place a node elsewhere."""
        node = self.node(name)
        before = node.device
        if before == device:
            return
        if not marks.is_added(node) and marks.DEVICE not in node.attr:
            node.attr[marks.DEVICE].s = before.encode()
        node.device = device
        self.edits.append(DeviceChanged(name, before, device))

    def note(self, name: str, key: str, value: AttrValue | None) -> None:
        """Write the attribute ``_tfwave_<key>`` of a node, or take it away."""
        node = self.node(name)
        attr = f"{marks.PREFIX}_{key}"
        if node.attr.get(attr) == value:
            return
        if value is None:
            del node.attr[attr]
        else:
            node.attr[attr].CopyFrom(value)
        self.edits.append(AttrSet(name, attr, value))

    def give(self, name: str, attr: str, value: AttrValue) -> None:
        """Give a node an attribute of TensorFlow's; one that has it keeps its own."""
        node = self.node(name)
        if attr in node.attr:
            return
        if not marks.is_added(node):
            node.attr[marks.GIVEN].list.s.append(attr.encode())
        node.attr[attr].CopyFrom(value)
        self.edits.append(AttrSet(name, attr, value))

    def rename_ends(self, *, feeds: Sequence[str], fetches: Sequence[str]) -> None:
        """Say what a caller feeds and fetches from now on."""
        self._feeds, self._fetches = tuple(feeds), tuple(fetches)

    def remark(self, text: str) -> None:
        """Tell the user of something that the edits do not say."""
        self.remarks.append(text)

    def undo(self) -> None:
        """Take back all that tfwave ever did to this graph, and the feeds and fetches that go with it."""
        removed = marks.removed_nodes(self._graph)
        for name in [name for name, node in self._nodes.items() if marks.is_added(node)]:
            self._take(name)
        for node in removed:
            self._put(node)
        for node in self._nodes.values():
            if marks.is_marked(node):
                self._restore(node)
        self._feeds, self._fetches = self._there(self._feeds), self._there(self._fetches)

    def finish(self) -> GraphItem:
        """The rewritten graph; the very item that came in where nothing changed."""
        if not self.edits:
            return self.item
        if any(isinstance(edit, NodeRemoved) for edit in self.edits):
            kept = [_copy(node) for node in self._nodes.values()]
            del self._graph.node[:]
            self._graph.node.extend(kept)
        return replace(self.item, graph=self._graph, feeds=self._feeds, fetches=self._fetches)

    def _there(self, tensors: Iterable[str]) -> tuple[str, ...]:
        return tuple(tensor for tensor in tensors if parse_input(tensor).node in self._nodes)

    def _put(self, node: NodeDef) -> None:
        place = self._graph.node.add()
        place.CopyFrom(node)
        self._nodes[node.name] = place
        self.edits.append(NodeAdded(node))

    def _take(self, name: str) -> None:
        self.edits.append(NodeRemoved(_copy(self._nodes.pop(name))))

    def _retire(self, name: str) -> None:
        original = _copy(self.node(name))
        self._take(name)
        if not marks.is_added(original):
            marks.restore(original)
            self._remember_removed(original)

    def _remember_removed(self, node: NodeDef) -> None:
        if marks.REMOVED not in self._nodes:
            self.add_node(marks.REMOVED, "NoOp")
        kept = self._nodes[marks.REMOVED].attr[marks.REMOVED_NODES].list
        kept.s.append(node.SerializeToString(deterministic=True))

    def _restore(self, node: NodeDef) -> None:
        before = _copy(node)
        marks.restore(node)
        if before.input != node.input:
            self.edits.append(InputsReplaced(node.name, tuple(before.input), tuple(node.input)))
        if before.device != node.device:
            self.edits.append(DeviceChanged(node.name, before.device, node.device))
        for name in sorted(before.attr.keys() - node.attr.keys()):
            self.edits.append(AttrSet(node.name, name, None))


def _remember_inputs(node: NodeDef) -> None:
    if not marks.is_added(node) and marks.INPUTS not in node.attr:
        before = node.attr[marks.INPUTS].list
        before.SetInParent()
        before.s.extend([text.encode() for text in node.input])


def _copy(node: NodeDef) -> NodeDef:
    copy = NodeDef()
    copy.CopyFrom(node)
    return copy
