"""Chain the receive ops of a partition."""

from dataclasses import dataclass
from itertools import pairwise

from tfwave.errors import GraphError
from tfwave.graph.rewriter import GraphRewriter
from tfwave.graph.view import RECV_OPS, GraphView
from tfwave.passes.base import GraphPass
from tfwave.plan.annotation import annotated_orders


@dataclass(frozen=True)
class ControlEdges(GraphPass):
    """Let each `_Recv` wait for the one before it, on each channel of a graph that is cut into partitions.

    A `_Recv` asks for its tensor when it starts, so tensors are asked for one at a time, in order. The order is
    what `recv_priority` noted; where it noted none, nothing is to be done.
    """

    def requires(self, view: GraphView) -> None:
        """What is ranked is a `_Recv`."""
        ops = dict(zip(view.names, view.ops, strict=True))
        for node in (entry.node for entries in annotated_orders(view).values() for entry in entries):
            if ops[node] not in RECV_OPS:
                raise GraphError(f"node '{node}' is no _Recv: run the pass 'cut' before 'recv_priority'")

    def run(self, graph: GraphRewriter) -> None:
        """Chain the receivers."""
        for entries in annotated_orders(graph.view).values():
            for before, after in pairwise(entries):
                graph.add_control_edge(before.node, after.node)
