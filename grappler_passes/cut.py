"""Placement and partition, offline."""

from dataclasses import dataclass, replace

from tfwave.graph.item import GraphItem
from tfwave.graph.marks import REMOVED
from tfwave.graph.names import parse_input
from tfwave.graph.partition.cut import cut
from tfwave.graph.rewriter import GraphRewriter
from tfwave.graph.view import RECV_OPS, GraphView
from tfwave.passes.base import GraphPass
from tfwave.proto.tensorflow_pb2 import NodeDef


@dataclass(frozen=True)
class Cut(GraphPass):
    """Place a graph and cut it where it crosses devices, as TensorFlow itself would with Grappler off.

    Functions are inlined and While, If and Case lowered as TensorFlow does; then each node has its full device, and
    each edge between devices is a `_Send` and a `_Recv`. All partitions are in one graph. Where fetches are known,
    what they do not need is left out.

    `devices` are all devices of the job, by default those that the graph names; `default` is the client's.
    """

    devices: tuple[str, ...] = ()
    default: str = ""

    def run(self, graph: GraphRewriter) -> None:
        """Cut, unless the graph is cut already."""
        if _is_cut(graph.view):
            return
        partitions = cut(_whole(graph.item), devices=self.devices, default=self.default)
        wanted = {node.name: node for partition in partitions for node in partition.node}
        for name in graph.view.names:
            if name not in wanted and name != REMOVED:
                graph.remove_node(name)
        for name, node in wanted.items():
            _become(graph, node) if graph.has_node(name) else graph.insert(node)


def _is_cut(view: GraphView) -> bool:
    return any(op in RECV_OPS for op in view.ops)


def _whole(item: GraphItem) -> GraphItem:
    """The graph with its fed and fetched nodes to be kept, instead of the client's ends of them."""
    if not item.fetches:
        return replace(item, feeds=(), preserve=frozenset())
    kept = {parse_input(name).node for name in (*item.feeds, *item.fetches)}
    return replace(item, feeds=(), fetches=(), preserve=item.preserve | kept)


def _become(graph: GraphRewriter, node: NodeDef) -> None:
    there = graph.node(node.name)
    if there.op == node.op and there.attr == node.attr:
        graph.move(node.name, node.device)
        graph.replace_inputs(node.name, node.input)
    else:
        graph.replace_node(node)
