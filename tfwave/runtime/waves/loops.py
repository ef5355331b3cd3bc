"""Whose handle it is that comes out of a loop."""

from dataclasses import dataclass

from tfwave.graph.names import parse_input
from tfwave.graph.rewriter import GraphRewriter
from tfwave.passes.base import GraphPass
from tfwave.proto.tensorflow_pb2 import DT_RESOURCE, FunctionDef, NodeDef

_LOOPS = frozenset({"While", "StatelessWhile"})


@dataclass(frozen=True)
class HandlesAroundLoops(GraphPass):
    """Let what takes a handle from a loop take it from where the loop has it from, and wait for the loop.

    The gradient of a loop over a recurrent layer takes the handles of the layer's weights so. A handle that the
    loop's body exchanges stays as it is.
    """

    def run(self, graph: GraphRewriter) -> None:
        """Redirect them."""
        bodies = {function.signature.name: function for function in graph.item.graph.library.function}
        for node in graph.view.nodes:
            for position, text in enumerate(node.input):
                origin = text
                while (loop := _loop(graph, origin, bodies)) is not None:
                    graph.add_control_edge(loop.name, node.name)
                    origin = loop.input[parse_input(origin).port]
                if origin != text:
                    graph.redirect(node.name, position, origin)


def _loop(graph: GraphRewriter, text: str, bodies: dict[str, FunctionDef]) -> NodeDef | None:
    """The loop that gives a handle as it took it."""
    if text.startswith("^"):
        return None
    tensor = parse_input(text)
    source = graph.node(tensor.node)
    if source.op not in _LOOPS or source.attr["T"].list.type[tensor.port] != DT_RESOURCE:
        return None
    return source if _is_kept(bodies[source.attr["body"].func.name], tensor.port) else None


def _is_kept(body: FunctionDef, position: int) -> bool:
    """Does a body give a loop variable as it took it?"""
    nodes = {node.name: node for node in body.node_def}
    text = body.ret[body.signature.output_arg[position].name]
    while (node := nodes.get(text.partition(":")[0])) is not None and node.op == "Identity":
        text = node.input[0]
    return text == body.signature.input_arg[position].name
