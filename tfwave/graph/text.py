"""The canonical form of a graph, as a message, as bytes and as text for goldens and for people.

It does not see what TensorFlow does not see: the order of nodes, of functions, of attributes, and of the control
inputs of one node. It sees all else.
"""

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any

from google.protobuf import text_format
from google.protobuf.message import Message

from tfwave.graph.serialize import serialize
from tfwave.graph.values import attrs_text, digest
from tfwave.proto.tensorflow_pb2 import FunctionDef, GraphDef, NodeDef

_INDENT = "  "
_NODE_NAME = attrgetter("name")
_FUNCTION_NAME = attrgetter("signature.name")
_GRADIENT_NAME = attrgetter("function_name")
_REGISTERED_NAME = attrgetter("registered_op_type")


def canonical(graph: GraphDef) -> GraphDef:
    """A copy with nodes, functions, gradients and control inputs in order of their names."""
    copy = GraphDef()
    copy.CopyFrom(graph)
    _sort_nodes(copy.node)
    copy.library.function.sort(key=_FUNCTION_NAME)
    copy.library.gradient.sort(key=_GRADIENT_NAME)
    copy.library.registered_gradients.sort(key=_REGISTERED_NAME)
    for function in copy.library.function:
        _sort_nodes(function.node_def)
    return copy


def canonical_bytes(graph: GraphDef) -> bytes:
    """The bytes of the canonical form.

    Raises:
        GraphError: the graph is longer than protobuf allows.
    """
    return serialize(canonical(graph), "in canonical form")


def canonical_text(graph: GraphDef) -> str:
    """The canonical form as text: nodes, then functions, each a short block; see `node_lines`."""
    lines = [f"({name}) = {text}" for name, text in graph_parts(graph).items()]
    lines += _nodes_lines(graph.node)
    for function in sorted(graph.library.function, key=_FUNCTION_NAME):
        lines += _function_lines(function)
    return "".join([f"{line}\n" for line in lines])


def graph_parts(graph: GraphDef) -> dict[str, str]:
    """What a graph holds beside nodes and functions, by name, as text."""
    parts = {"version": str(graph.version)} if graph.version else {}
    if graph.HasField("versions"):
        parts["versions"] = one_line(graph.versions)
    for gradient in sorted(graph.library.gradient, key=_GRADIENT_NAME):
        parts[f"gradient of {gradient.function_name}"] = gradient.gradient_func
    for registered in sorted(graph.library.registered_gradients, key=_REGISTERED_NAME):
        parts[f"registered gradient {registered.registered_op_type}"] = registered.gradient_func
    if graph.HasField("debug_info"):
        parts["debug_info"] = digest(graph.debug_info.SerializeToString(deterministic=True))
    return parts


def function_parts(function: FunctionDef) -> dict[str, str]:
    """What a function holds beside nodes, by name, as text."""
    parts = {"signature": one_line(function.signature)}
    parts |= {f"attr {name}": text for name, text in attrs_text(function.attr).items()}
    for index in sorted(function.arg_attr):
        for name, text in attrs_text(function.arg_attr[index].attr).items():
            parts[f"argument {index} attr {name}"] = text
    for index in sorted(function.resource_arg_unique_id):
        parts[f"argument {index} resource"] = str(function.resource_arg_unique_id[index])
    parts |= {f"return {name}": function.ret[name] for name in sorted(function.ret)}
    parts |= {f"control return {name}": function.control_ret[name] for name in sorted(function.control_ret)}
    return parts


def split_inputs(node: NodeDef) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The data inputs by position, and the control inputs by name."""
    inputs = tuple(node.input)
    controls = sorted([text for text in inputs if text[:1] == "^"])
    if not controls:
        return inputs, ()
    return tuple([text for text in inputs if text[:1] != "^"]), tuple(controls)


def node_notes(node: NodeDef) -> dict[str, str]:
    """What a node holds beside op, device, inputs and attributes, by name, as text."""
    notes: dict[str, str] = {}
    if node.HasField("experimental_type"):
        notes["type"] = one_line(node.experimental_type)
    if node.HasField("experimental_debug_info"):
        notes["debug_info"] = one_line(node.experimental_debug_info)
    return notes


def node_lines(node: NodeDef) -> Iterator[str]:
    """A node as text: ``name = Op(data inputs) ^controls @device``, then one line per attribute, by name."""
    data, controls = split_inputs(node)
    device = [f"@{node.device}"] if node.device else []
    yield " ".join([f"{node.name} = {node.op}({', '.join(data)})", *controls, *device])
    for name, text in attrs_text(node.attr).items():
        yield f"{_INDENT}{name} = {text}"
    for name, text in node_notes(node).items():
        yield f"{_INDENT}({name}) = {text}"


def one_line(message: Message) -> str:
    """A small message in protobuf's text form."""
    return text_format.MessageToString(message, as_one_line=True)


def _sort_nodes(nodes: Any) -> None:
    nodes.sort(key=_NODE_NAME)
    for node in nodes:
        data, controls = split_inputs(node)
        if len(controls) > 1:
            node.input[:] = (*data, *controls)


def _nodes_lines(nodes: Iterable[NodeDef]) -> list[str]:
    return [line for node in sorted(nodes, key=_NODE_NAME) for line in node_lines(node)]


def _function_lines(function: FunctionDef) -> list[str]:
    parts = [f"({name}) = {text}" for name, text in function_parts(function).items()]
    body = [*parts, *_nodes_lines(function.node_def)]
    return [f"function {function.signature.name}", *[_INDENT + line for line in body]]
