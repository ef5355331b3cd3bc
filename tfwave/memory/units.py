"""What a step can be cut into at the finest: its ops, and its branches and loops, each of them whole."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from tfwave.errors import GraphError
from tfwave.graph.flow_regions import flow_regions
from tfwave.graph.names import natural_key
from tfwave.graph.view import GraphView


def units_of(view: GraphView) -> list[int]:
    """Per node: the node that stands for its unit, which is itself, or the first by name of its branch or loop.

    A branch or loop has all its nodes, those inside it included (see `flow_regions`). Before it is lowered, it is
    one node.
    """
    regions = flow_regions(view)
    members: dict[int, list[int]] = defaultdict(list)
    for node, region in enumerate(regions):
        members[region].append(node)
    first = {region: min(nodes, key=lambda n: name_key(view, n)) for region, nodes in members.items()}
    return [first[region] for region in regions]


def unit_levels(view: GraphView, units: Sequence[int]) -> dict[int, int]:
    """Per unit: the edges on the longest path that leads to it, each branch or loop taken as one node.

    Raises:
        GraphError: a branch or loop waits for what depends on it; names a node of it.
    """
    import networkx as nx

    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(units)
    for node, unit in enumerate(units):
        graph.add_edges_from((units[f], unit) for f in view.forward_fanins(node) if units[f] != unit)
    try:
        levels = list(nx.topological_generations(graph))
    except nx.NetworkXUnfeasible as error:
        raise GraphError(
            f"the branch or loop of node '{_first_shared(units, view)}' waits for what it gives out"
        ) from error
    return {unit: level for level, there in enumerate(levels) for unit in there}


def unit_order(view: GraphView, levels: Mapping[int, int]) -> list[int]:
    """Units by level, those of one level by name with its numbers as numbers, then by device."""
    return sorted(levels, key=lambda unit: (levels[unit], name_key(view, unit)))


def name_key(view: GraphView, node: int) -> tuple[object, ...]:
    """What a node is sorted by; never its index."""
    return natural_key(view.names[node]), view.names[node], view.nodes[node].device


def _first_shared(units: Sequence[int], view: GraphView) -> str:
    return min(view.names[unit] for node, unit in enumerate(units) if unit != node)
