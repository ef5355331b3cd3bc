"""The variables of a device that a step updates without giving out their values, as optimizers do with slots."""

from collections.abc import Collection, Iterator, Mapping

from tfwave.graph.access import HANDLE_OP, resource_of
from tfwave.graph.flow_ops import ENTER_OPS, SWITCH_OPS
from tfwave.graph.names import parse_input
from tfwave.graph.variable_bytes import resident_bytes
from tfwave.proto.tensorflow_pb2 import NodeDef

_PASSING_OPS = frozenset({"Identity", *ENTER_OPS, *SWITCH_OPS})


def unread_bytes(nodes: Mapping[str, NodeDef], givers: Collection[str]) -> int:
    """Bytes of the variables whose values none of `givers` (names of nodes) reads; 0 for what declares no shape."""
    read = {name for giver in givers if giver in nodes for name in _handles(nodes, nodes[giver])}
    variables = {resource_of(node): node for node in nodes.values() if node.op == HANDLE_OP}
    known = {resource_of(nodes[name]) for name in read}
    return sum(resident_bytes(node) for key, node in variables.items() if key not in known)


def _handles(nodes: Mapping[str, NodeDef], node: NodeDef) -> Iterator[str]:
    """The VarHandleOps whose handles a node takes, also by way of others."""
    sources = [nodes.get(parse_input(text).node) for text in node.input]
    seen: set[str] = set()
    for source in sources:
        if source is None or source.name in seen:
            continue
        seen.add(source.name)
        if source.op in _PASSING_OPS:
            sources += [nodes.get(parse_input(text).node) for text in source.input[:1]]
        elif source.op == HANDLE_OP:
            yield source.name
