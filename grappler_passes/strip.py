"""Undo."""

from dataclasses import dataclass

from tfwave.errors import GraphError
from tfwave.graph.marks import is_marked
from tfwave.graph.rewriter import GraphRewriter
from tfwave.graph.view import GraphView
from tfwave.passes.base import GraphPass


@dataclass(frozen=True)
class Strip(GraphPass):
    """Remove every trace of tfwave from a graph.

    Takes back all that any pass did, in whatever number and order they ran: nodes that were added go, nodes that
    were taken out come back, changed inputs, devices and attributes are as they were. The result equals the
    original byte for byte in canonical order. Works on a graph that the send hook marked at run time, too.
    """

    def run(self, graph: GraphRewriter) -> None:
        """Undo."""
        graph.undo()

    def ensures(self, view: GraphView) -> None:
        """Nothing of tfwave is left."""
        left = next((node.name for node in view.nodes if is_marked(node)), None)
        if left is not None:
            raise GraphError(f"node '{left}' still bears marks of tfwave")
