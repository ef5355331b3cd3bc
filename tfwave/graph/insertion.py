"""The order in which TensorFlow inserts the nodes of a GraphDef into its own graph.

Placement goes along it, and so do the numbers in the names that TensorFlow generates.
"""

from heapq import heappop, heappush

from tfwave.graph.view import GraphView, transposed
from tfwave.proto.tensorflow_pb2 import GraphDef


def insertion_order(view: GraphView) -> list[int]:
    """Node indices, each after its fanins: of the nodes that are ready, the first in the graph comes next.

    Raises:
        GraphError: a cycle that is not a while loop; names its nodes.
    """
    fanins = [view.forward_fanins(node) for node in range(len(view))]
    if all(source < node for node, sources in enumerate(fanins) for source in sources):
        return list(range(len(view)))
    _ = view.topological_order
    pending = [len(sources) for sources in fanins]
    fanouts = transposed(fanins)
    ready = [node for node, count in enumerate(pending) if not count]
    order: list[int] = []
    while ready:
        node = heappop(ready)
        order.append(node)
        for fanout in fanouts[node]:
            pending[fanout] -= 1
            if not pending[fanout]:
                heappush(ready, fanout)
    return order


def in_insertion_order(graph: GraphDef, view: GraphView | None = None) -> GraphDef:
    """The graph with its nodes in that order; one that is in order already is returned as it is.

    `view` is the graph's, where it is at hand.

    Raises:
        GraphError: a malformed graph, or a cycle that is not a while loop; names its nodes.
    """
    view = view or GraphView.of(graph)
    order = insertion_order(view)
    if order == list(range(len(view))):
        return graph
    made = GraphDef(versions=graph.versions, library=graph.library)
    made.node.extend(view.nodes[node] for node in order)
    return made
