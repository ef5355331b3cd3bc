"""Nodes that TensorFlow would make when it runs a graph, put into the graph: under names of their own."""

import re
from collections.abc import Container, Iterable, Mapping

from tfwave.errors import GraphError
from tfwave.graph.attrs import CLASS_ATTR, CLASS_PREFIX, rename_groups
from tfwave.graph.marks import REMOVED
from tfwave.graph.rewriter import GraphRewriter
from tfwave.proto.tensorflow_pb2 import GraphDef, NodeDef

_GENERATED = re.compile(r"(?:/_|_([SG]))(\d+)$")
_INTERNAL = re.compile(r"^_")


def become(graph: GraphRewriter, wanted: Mapping[str, NodeDef]) -> None:
    """Let a graph have these nodes, by name, and no others."""
    for name in graph.view.names:
        if name not in wanted and name != REMOVED:
            graph.remove_node(name)
    for name, node in wanted.items():
        if name != REMOVED:
            _become(graph, node) if graph.has_node(name) else graph.insert(node)


def _become(graph: GraphRewriter, node: NodeDef) -> None:
    there = graph.node(node.name)
    if there.op == node.op and there.attr == node.attr:
        graph.move(node.name, node.device)
        graph.replace_inputs(node.name, node.input)
    else:
        graph.replace_node(node)


def named_apart(graphs: Iterable[GraphDef], known: Container[str], by: str) -> dict[str, NodeDef]:
    """All nodes by name, where what TensorFlow's names would clash with, or would not allow, has another name.

    When TensorFlow runs the graph it numbers what it adds as it did before: ``conv/_3`` becomes ``conv/cut_3``.

    Args:
        graphs: their nodes are put together.
        known: names that stay.
        by: the pass.

    Raises:
        GraphError: two of the graphs have a node of one name.
    """
    joined: dict[str, NodeDef] = {}
    for graph in graphs:
        names = {node.name: _own_name(node.name, by) for node in graph.node if node.name not in known}
        for node in graph.node:
            copy = _with_names(node, names)
            if copy.name in joined:
                raise GraphError(f"node '{copy.name}' would be in two partitions: rename it")
            joined[copy.name] = copy
    for node in joined.values():
        _leave_alone(node, joined)
    return joined


def _leave_alone(node: NodeDef, there: Container[str]) -> None:
    """Let a node stay with none that is gone: TensorFlow takes no such graph, and each node has its device."""
    if CLASS_ATTR not in node.attr:
        return
    groups = node.attr[CLASS_ATTR].list.s
    kept = [group for group in groups if group.decode(errors="replace").removeprefix(CLASS_PREFIX) in there]
    groups[:] = kept
    if not kept:
        del node.attr[CLASS_ATTR]


def _with_names(node: NodeDef, names: Mapping[str, str]) -> NodeDef:
    copy = NodeDef()
    copy.CopyFrom(node)
    copy.name = names.get(node.name, node.name)
    copy.ClearField("input")
    copy.input.extend(_renamed(text, names) for text in node.input)
    rename_groups(copy, lambda name: names.get(name, name))
    return copy


def _own_name(name: str, by: str) -> str:
    """``conv/_3`` -> ``conv/cut_3``, ``conv_S3`` -> ``conv/cut_S3``, ``_cloopx`` -> ``cut/cloopx``."""
    return _GENERATED.sub(rf"/{by}_\1\2", _INTERNAL.sub(f"{by}/", name))


def _renamed(text: str, names: Mapping[str, str]) -> str:
    if text.startswith("^"):
        return f"^{names.get(text[1:], text[1:])}"
    node, colon, port = text.partition(":")
    return names.get(node, node) + colon + port
