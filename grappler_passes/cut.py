"""Placement and partition, offline."""

import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace

from tfwave.errors import GraphError
from tfwave.graph.attrs import CLASS_ATTR, CLASS_PREFIX
from tfwave.graph.item import GraphItem
from tfwave.graph.marks import REMOVED
from tfwave.graph.names import parse_input
from tfwave.graph.partition.cut import cut
from tfwave.graph.rewriter import GraphRewriter
from tfwave.graph.view import RECV_OPS, GraphView
from tfwave.passes.base import GraphPass
from tfwave.proto.tensorflow_pb2 import GraphDef, NodeDef

_GENERATED = re.compile(r"(?:/_|_([SG]))(\d+)$")
_INTERNAL = re.compile(r"^_")


@dataclass(frozen=True)
class Cut(GraphPass):
    """Place a graph and cut it where it crosses devices, as TensorFlow itself would with Grappler off.

    Functions are inlined and While, If and Case lowered as TensorFlow does; then each node has its full device, and
    each edge between devices is a `_Send` and a `_Recv`. All partitions are in one graph. Where fetches are known,
    what they do not need is left out.

    Grappler knows no shape of a received tensor, and so may leave a sum as it is that it would else reorder: with
    Grappler on, a cut graph can round differently in the last bit.

    `devices` are all devices of the job, by default those that the graph names; `default` is the client's. A
    node of which the kernels of a GPU decide where it runs is refused: those are not known here.
    """

    devices: tuple[str, ...] = ()
    default: str = ""

    def run(self, graph: GraphRewriter) -> None:
        """Cut, unless the graph is cut already."""
        if _is_cut(graph.view):
            return
        partitions = cut(_whole(graph.item), devices=self.devices, default=self.default)
        wanted = _joined(partitions, frozenset(graph.view.names))
        if graph.item.handles is not None:
            wanted = _with_own_ends(graph, wanted)
        for name in graph.view.names:
            if name not in wanted and name != REMOVED:
                graph.remove_node(name)
        for name, node in wanted.items():
            if name != REMOVED:
                _become(graph, node) if graph.has_node(name) else graph.insert(node)


def _is_cut(view: GraphView) -> bool:
    return any(op in RECV_OPS for op in view.ops)


def _whole(item: GraphItem) -> GraphItem:
    """The graph with its fed and fetched nodes to be kept, instead of the client's ends of them.

    A traced function is cut with its ends: where a variable comes in decides where it is used.
    """
    if item.handles is not None:
        return item
    if not item.fetches:
        return replace(item, feeds=(), preserve=frozenset())
    kept = {parse_input(name).node for name in (*item.feeds, *item.fetches)}
    return replace(item, feeds=(), fetches=(), preserve=item.preserve | kept)


def _with_own_ends(graph: GraphRewriter, wanted: Mapping[str, NodeDef]) -> dict[str, NodeDef]:
    """The inputs of a traced function as it names them, and its results read where they are made."""
    ends: dict[str, NodeDef] = {}
    for name, node in wanted.items():
        if node.op == "_Arg":
            placed = NodeDef()
            placed.CopyFrom(graph.node(name))
            placed.device = node.device
            ends[name] = placed
        elif node.op != "_Retval":
            ends[name] = node
    return ends


def _become(graph: GraphRewriter, node: NodeDef) -> None:
    there = graph.node(node.name)
    if there.op == node.op and there.attr == node.attr:
        graph.move(node.name, node.device)
        graph.replace_inputs(node.name, node.input)
    else:
        graph.replace_node(node)


def _joined(partitions: Iterable[GraphDef], known: Container[str]) -> dict[str, NodeDef]:
    """All nodes by name, where what TensorFlow's names would clash with, or would not allow, has another name.

    When TensorFlow runs the graph it cuts off feeds and fetches, and numbers what it adds as it did before.
    """
    joined: dict[str, NodeDef] = {}
    for partition in partitions:
        names = {node.name: _own_name(node.name) for node in partition.node if node.name not in known}
        for node in partition.node:
            copy = _with_names(node, names)
            if copy.name in joined:
                raise GraphError(f"node '{copy.name}' would be in two partitions: rename it")
            joined[copy.name] = copy
    for node in joined.values():
        _leave_alone(node, joined)
    return joined


def _leave_alone(node: NodeDef, there: Container[str]) -> None:
    """Let a node stay with none that is gone: TensorFlow takes no such graph, and each node has its device."""
    if CLASS_ATTR not in node.attr:
        return
    groups = node.attr[CLASS_ATTR].list.s
    kept = [group for group in groups if group.decode().removeprefix(CLASS_PREFIX) in there]
    groups[:] = kept
    if not kept:
        del node.attr[CLASS_ATTR]


def _with_names(node: NodeDef, names: Mapping[str, str]) -> NodeDef:
    copy = NodeDef()
    copy.CopyFrom(node)
    copy.name = names.get(node.name, node.name)
    copy.ClearField("input")
    copy.input.extend(_renamed(text, names) for text in node.input)
    if CLASS_ATTR in node.attr:
        groups = [group.decode() for group in node.attr[CLASS_ATTR].list.s]
        copy.attr[CLASS_ATTR].list.s[:] = [_with_group(group, names).encode() for group in groups]
    return copy


def _with_group(group: str, names: Mapping[str, str]) -> str:
    name = group.removeprefix(CLASS_PREFIX)
    return group.replace(name, names.get(name, name))


def _own_name(name: str) -> str:
    """``conv/_3`` -> ``conv/cut_3``, ``conv_S3`` -> ``conv/cut_S3``, ``_cloopx`` -> ``cut/cloopx``."""
    return _GENERATED.sub(r"/cut_\1\2", _INTERNAL.sub("cut/", name))


def _renamed(text: str, names: Mapping[str, str]) -> str:
    if text.startswith("^"):
        return f"^{names.get(text[1:], text[1:])}"
    node, colon, port = text.partition(":")
    return names.get(node, node) + colon + port
