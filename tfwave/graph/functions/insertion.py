"""The order in which TensorFlow puts the nodes of a GraphDef into a graph: generated names count along it."""

from collections.abc import Iterator
from heapq import heappop, heappush

from tfwave.graph.view import GraphView


def insertion_order(view: GraphView) -> Iterator[int]:
    """Node indices, each after its fanins: of the nodes that are ready, the first in the graph comes next.

    Raises:
        GraphError: a cycle that is not a while loop; names its nodes.
    """
    _ = view.topological_order
    fanins = [view.forward_fanins(i) for i in range(len(view))]
    fanouts: list[list[int]] = [[] for _ in fanins]
    for node, sources in enumerate(fanins):
        for source in sources:
            fanouts[source].append(node)
    pending = [len(sources) for sources in fanins]
    ready = [i for i, count in enumerate(pending) if not count]
    while ready:
        node = heappop(ready)
        yield node
        for fanout in fanouts[node]:
            pending[fanout] -= 1
            if not pending[fanout]:
                heappush(ready, fanout)
