"""What one step takes of a graph."""

from collections.abc import Sequence

from tfwave.errors import GraphError
from tfwave.graph.attrs import NOTED_SHAPES
from tfwave.graph.item import GraphItem
from tfwave.graph.names import parse_input
from tfwave.graph.partition.pins import is_function
from tfwave.graph.reach import upstream_of
from tfwave.graph.view import GraphView
from tfwave.proto.tensorflow_pb2 import GraphDef


def ends_of(item: GraphItem) -> frozenset[str]:
    """The nodes that a step runs for their own sake: those that are fetched; none, if nobody knows.

    A function runs those that are preserved, too, such as updates that no tensor waits for which it returns.
    """
    fetched = frozenset(parse_input(name).node for name in item.fetches)
    in_function = item.handles is not None or is_function(item.graph)
    return fetched | item.preserve if in_function else fetched


def needed_of(item: GraphItem, view: GraphView) -> frozenset[int]:
    """The nodes that a step runs; all, if nobody knows what for."""
    ends = ends_of(item)
    found = [node for node, name in enumerate(view.names) if name in ends]
    return upstream_of(view, found) if found else frozenset(range(len(view)))


def step_of(graph: GraphDef, fetches: Sequence[str]) -> GraphDef:
    """The nodes that some fetches (tensors or nodes) need, in the order of the graph, and its whole library.

    Shapes that TensorFlow notes in one kind of file, and not in another, are left out.

    Raises:
        GraphError: a fetch that the graph does not have, or as `GraphView.of`.
    """
    view = GraphView.of(graph)
    index = {name: node for node, name in enumerate(view.names)}
    wanted = [parse_input(fetch).node for fetch in fetches]
    for name in wanted:
        if name not in index:
            raise GraphError(f"the fetch '{name}' names a node that the graph does not have")
    needed = upstream_of(view, [index[name] for name in wanted])
    nodes = [view.nodes[node] for node in sorted(needed)]
    step = GraphDef(node=nodes, versions=graph.versions, library=graph.library)
    for node in step.node:
        if NOTED_SHAPES in node.attr:
            del node.attr[NOTED_SHAPES]
    return step
