"""Nodes in the order of their names, and by how deep they lie in a graph."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from tfwave.graph.names import natural_key
from tfwave.graph.view import GraphView


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
