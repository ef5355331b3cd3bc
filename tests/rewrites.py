"""What must hold of every pass, on any graph."""

import networkx as nx

from tfwave.graph.item import GraphItem
from tfwave.graph.verify import verify
from tfwave.passes.base import PassResult, Transform
from tfwave.passes.registry import find_pass
from tfwave.proto.tensorflow_pb2 import GraphDef


def check_rewrite(transform: Transform, item: GraphItem) -> PassResult:
    """Input untouched, output well-formed, idempotent, preserve set kept, undo exact, deterministic."""
    before = item.graph.SerializeToString(deterministic=True)
    result = transform(item)
    assert item.graph.SerializeToString(deterministic=True) == before
    view = verify(result.item)
    assert item.preserve <= set(view.names)
    assert transform(item).item.graph.SerializeToString(deterministic=True) == graph_bytes(result.item)
    again = transform(result.item)
    assert not again.edits
    assert again.item is result.item
    undone = find_pass("strip")()(result.item).item
    assert in_order(undone.graph) == in_order(item.graph)
    return result


def graph_bytes(item: GraphItem) -> bytes:
    return item.graph.SerializeToString(deterministic=True)


def in_order(graph: GraphDef) -> bytes:
    """The bytes of a graph, nodes sorted by name."""
    copy = GraphDef()
    copy.CopyFrom(graph)
    del copy.node[:]
    copy.node.extend(sorted(graph.node, key=lambda node: node.name))
    return copy.SerializeToString(deterministic=True)


def edges(graph: GraphDef) -> nx.DiGraph:
    """By node names, control edges included; told by the inputs' texts alone."""
    found = nx.DiGraph()
    for node in graph.node:
        found.add_node(node.name)
        found.add_edges_from((text.strip("^").partition(":")[0], node.name) for text in node.input)
    return found
