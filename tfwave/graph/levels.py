"""How deep each node lies in a graph, and ranks of nodes by that and by name."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from tfwave.graph.names import natural_key
from tfwave.graph.view import GraphView


def longest_path_levels(view: GraphView) -> list[int]:
    """Per node: the edges on the longest path that leads to it."""
    levels = [0] * len(view)
    for node in view.topological_order:
        fanins = view.forward_fanins(node)
        if fanins:
            levels[node] = 1 + max([levels[f] for f in fanins])
    return levels


def by_name(view: GraphView, nodes: Iterable[int]) -> tuple[int, ...]:
    """Nodes in the order of their names, with the numbers in these as numbers."""
    return tuple(sorted(nodes, key=lambda node: natural_key(view.names[node])))


def natural_ranks(view: GraphView, ops: Collection[int], levels: Sequence[int]) -> dict[int, int]:
    """Rank of each op by (level, name with its numbers as numbers, device)."""
    by_level: dict[int, list[int]] = defaultdict(list)
    for op in ops:
        by_level[levels[op]].append(op)

    def name_key(op: int) -> tuple[object, ...]:
        return natural_key(view.names[op]), view.names[op], view.nodes[op].device

    ordered = [op for _, group in sorted(by_level.items()) for op in sorted(group, key=name_key)]
    return {op: rank for rank, op in enumerate(ordered)}
