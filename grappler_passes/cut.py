"""Placement and partition, offline."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tfwave.graph.item import GraphItem
from tfwave.graph.names import parse_input
from tfwave.graph.partition.cut import cut
from tfwave.graph.rewriter import GraphRewriter
from tfwave.graph.view import RECV_OPS, GraphView
from tfwave.passes.base import GraphPass
from tfwave.proto.tensorflow_pb2 import NodeDef
from tfwave.rewrite.own_names import become, named_apart


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
        wanted = named_apart(partitions, frozenset(graph.view.names), self.name)
        become(graph, wanted if graph.item.handles is None else _with_own_ends(graph, wanted))


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
