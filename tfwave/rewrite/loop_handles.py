"""Handles that go through a loop, as the gradient of a loop over a recurrent layer takes those of its weights."""

from collections.abc import Mapping

from tfwave.graph.functions.lower_while import WHILE_OPS
from tfwave.proto.tensorflow_pb2 import DT_RESOURCE, FunctionDef, NodeDef


def entering(node: NodeDef, port: int, functions: Mapping[str, FunctionDef]) -> str | None:
    """The input by which a loop has a handle that it gives out as it took it; None for anything else.

    `functions` are those of the graph, by name.
    """
    if node.op not in WHILE_OPS or not {"T", "body"} <= node.attr.keys():
        return None
    body = functions.get(node.attr["body"].func.name)
    is_handle = list(node.attr["T"].list.type)[port : port + 1] == [DT_RESOURCE]
    return node.input[port] if is_handle and body is not None and _is_kept(body, port) else None


def _is_kept(body: FunctionDef, position: int) -> bool:
    """Does a body give a loop variable as it took it?"""
    given, taken = (
        [arg.name for arg in args] for args in (body.signature.output_arg, body.signature.input_arg)
    )
    if position >= min(len(given), len(taken)):
        return False
    nodes = {node.name: node for node in body.node_def if node.op == "Identity" and node.input}
    text = body.ret.get(given[position], "")
    while (node := nodes.pop(text.partition(":")[0], None)) is not None:
        text = node.input[0]
    return text == taken[position]
