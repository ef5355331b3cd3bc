"""Whose handle it is that comes out of a loop."""

from dataclasses import dataclass

from tfwave.graph.names import parse_input
from tfwave.graph.rewriter import GraphRewriter
from tfwave.passes.base import GraphPass
from tfwave.rewrite.loop_handles import entering


@dataclass(frozen=True)
class HandlesAroundLoops(GraphPass):
    """Let what takes a handle from a loop take it from where the loop has it from, and wait for the loop.

    A handle that the loop's body exchanges stays as it is.
    """

    def run(self, graph: GraphRewriter) -> None:
        """Redirect them."""
        functions = {function.signature.name: function for function in graph.item.graph.library.function}
        for node in graph.view.nodes:
            for position, text in enumerate(node.input):
                origin = text
                while not origin.startswith("^"):
                    tensor = parse_input(origin)
                    before = entering(graph.node(tensor.node), tensor.port, functions)
                    if before is None:
                        break
                    graph.add_control_edge(tensor.node, node.name)
                    origin = before
                if origin != text:
                    graph.redirect(node.name, position, origin)
