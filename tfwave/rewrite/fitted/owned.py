"""Variables whose buffers are theirs from the beginning.

A variable that is assigned a constant lies in the constant's buffer. Its first update has to copy it into another,
which it takes in the middle of a step, wherever there is room, and keeps: of a pool that the step needs whole, what
is free lies apart from then on.
"""

from collections.abc import Iterable

from tfwave.graph.names import parse_input
from tfwave.graph.rewriter import GraphRewriter
from tfwave.proto.tensorflow_pb2 import (
    DT_BFLOAT16,
    DT_DOUBLE,
    DT_FLOAT,
    DT_HALF,
    DT_INT32,
    DT_INT64,
    NodeDef,
)

_ASSIGN, _VALUE = "AssignVariableOp", 1
_COPIED = frozenset({DT_HALF, DT_BFLOAT16, DT_FLOAT, DT_DOUBLE, DT_INT32, DT_INT64})


def own_buffers(graph: GraphRewriter, step: Iterable[str]) -> None:
    """Let what is assigned a constant get a copy of it; nodes of the step, by name, stay as they are."""
    in_step = frozenset(step)
    for node in graph.view.nodes:
        if node.op == _ASSIGN and node.name not in in_step and _gets_constant(graph, node):
            value, kind = node.input[_VALUE], node.attr["dtype"]
            copy = graph.add_node(
                f"{node.name}/own", "DeepCopy", [value], device=node.device, attrs={"T": kind}
            )
            graph.redirect(node.name, _VALUE, copy)


def _gets_constant(graph: GraphRewriter, node: NodeDef) -> bool:
    if node.attr["dtype"].type not in _COPIED:
        return False
    source = graph.node(parse_input(node.input[_VALUE]).node)
    while source.op == "Identity":
        source = graph.node(parse_input(source.input[0]).node)
    return source.op == "Const"
