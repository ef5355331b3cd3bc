"""Is a graph well-formed?"""

from tfwave.errors import GraphError
from tfwave.graph.item import GraphItem
from tfwave.graph.names import parse_input
from tfwave.graph.signatures import check_signatures
from tfwave.graph.view import GraphView


def verify(item: GraphItem) -> GraphView:
    """Check a graph and return its view.

    Raises:
        GraphError: what `GraphView.of` refuses, a cycle that is not a while loop, what `check_signatures` refuses,
            or a feed, fetch or preserved name that no node has; names it.
    """
    view = GraphView.of(item.graph)
    _ = view.topological_order
    check_signatures(item, view)
    there = set(view.names)
    for kind, names in (("feed", item.feeds), ("fetch", item.fetches), ("preserved node", item.preserve)):
        for name in sorted(names):
            if parse_input(name).node not in there:
                raise GraphError(f"the {kind} '{name}' names a node that the graph does not have")
    return view
