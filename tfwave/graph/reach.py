"""Questions about paths in a graph."""

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

from tfwave.graph.flow_ops import ENTER_OPS, EXIT_OPS, MERGE_OPS, NEXT_OPS, SWITCH_OPS
from tfwave.graph.view import GraphView

_Place = TypeVar("_Place", bound=Hashable)


def reached(nexts: Callable[[_Place], Iterable[_Place]], starts: Iterable[_Place]) -> frozenset[_Place]:
    """These places and all that one comes to from them, by what `nexts` gives for each."""
    return frozenset(_walk(nexts, starts))


def reached_without(
    nexts: Callable[[_Place], Iterable[_Place]],
    starts: Iterable[_Place],
    is_end: Callable[[_Place], bool],
) -> frozenset[_Place] | None:
    """As `reached`; None if any of these places is an end. The nearest are asked first, and none behind an end."""
    found: set[_Place] = set()
    for place in _walk(nexts, starts):
        if is_end(place):
            return None
        found.add(place)
    return frozenset(found)


def _walk(nexts: Callable[[_Place], Iterable[_Place]], starts: Iterable[_Place]) -> Iterator[_Place]:
    """Each place once, the nearest first; asks for those behind one only after that."""
    queue = deque(starts)
    found: set[_Place] = set()
    while queue:
        place = queue.popleft()
        if place not in found:
            found.add(place)
            yield place
            queue.extend(nexts(place))


def upstream_of(view: GraphView, nodes: Iterable[int]) -> frozenset[int]:
    """These nodes and all that they need, through data and control edges."""
    return reached(view.fanins.__getitem__, nodes)


def in_control_flow(view: GraphView) -> frozenset[int]:
    """The nodes that do not run exactly once in a step: those in branches and in loops.

    Counts how deep a node is. A Switch and an Enter lead one deeper, the Merge of a branch one back, and an Exit
    two: out of the loop's Enter and its Switch. The Merge of a loop (it reads a NextIteration) does neither.
    """
    depths = [0] * len(view)
    for node in view.topological_order:
        depth = max((depths[fanin] for fanin in view.forward_fanins(node)), default=0)
        depths[node] = max(0, depth + _step(view, node))
    return frozenset(node for node, depth in enumerate(depths) if depth)


def _step(view: GraphView, node: int) -> int:
    op = view.ops[node]
    if op in SWITCH_OPS or op in ENTER_OPS:
        return 1
    if op in EXIT_OPS:
        return -2
    is_branch_end = op in MERGE_OPS and not any(view.ops[fanin] in NEXT_OPS for fanin in view.fanins[node])
    return -1 if is_branch_end else 0
