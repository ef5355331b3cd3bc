"""The order in which TensorFlow inserts the nodes of a GraphDef into its own graph: placement follows it."""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from tfwave.graph.view import GraphView
from tfwave.proto.tensorflow_pb2 import GraphDef


def in_insertion_order(graph: GraphDef) -> GraphDef:
    """The graph with each node after its fanins; of those that are ready, the first in the graph comes next.

    A graph that is in order already is returned as it is.

    Raises:
        GraphError: a malformed graph, or a cycle that is not a while loop; names its nodes.
    """
    view = GraphView.of(graph)
    fanins = [view.forward_fanins(node) for node in range(len(view))]
    if all(source < node for node, sources in enumerate(fanins) for source in sources):
        return graph
    _ = view.topological_order
    made = GraphDef(versions=graph.versions, library=graph.library)
    made.node.extend(view.nodes[node] for node in _insertion_order(fanins))
    return made


def _insertion_order(fanins: Sequence[Sequence[int]]) -> list[int]:
    pending = [len(sources) for sources in fanins]
    fanouts: list[list[int]] = [[] for _ in fanins]
    for node, sources in enumerate(fanins):
        for source in sources:
            fanouts[source].append(node)
    ready = [node for node, count in enumerate(pending) if not count]
    heapify(ready)
    order: list[int] = []
    while ready:
        node = heappop(ready)
        order.append(node)
        for fanout in fanouts[node]:
            pending[fanout] -= 1
            if not pending[fanout]:
                heappush(ready, fanout)
    return order
