"""What a step can be cut into at the finest: its ops, and its while loops, each of them whole."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from tfwave.errors import GraphError
from tfwave.graph.attrs import string_attr
from tfwave.graph.flow_ops import ENTER_OPS, EXIT_OPS
from tfwave.graph.names import natural_key
from tfwave.graph.view import GraphView


def units_of(view: GraphView) -> list[int]:
    """Per node: the node that stands for its unit, which is itself, or the first by name of its while loop.

    A loop has all nodes from its Enters to its Exits, the loops inside it included. Before it is lowered, it is one
    node.
    """
    loops = _outermost_loops(view)
    members: dict[str, list[int]] = defaultdict(list)
    for node, loop in enumerate(loops):
        members[loop].append(node)
    first = {loop: min(nodes, key=lambda n: name_key(view, n)) for loop, nodes in members.items()}
    return [first[loop] if loop else node for node, loop in enumerate(loops)]


def unit_levels(view: GraphView, units: Sequence[int]) -> dict[int, int]:
    """Per unit: the edges on the longest path that leads to it, each loop taken as one node.

    Raises:
        GraphError: a loop waits for what depends on it; names a node of it.
    """
    before: dict[int, set[int]] = {unit: set() for unit in units}
    for node, unit in enumerate(units):
        before[unit].update(units[f] for f in view.forward_fanins(node) if units[f] != unit)
    levels: dict[int, int] = {}
    try:
        for unit in TopologicalSorter(before).static_order():
            levels[unit] = max((1 + levels[source] for source in before[unit]), default=0)
    except CycleError as error:
        raise GraphError(
            f"the loop of node '{_first_loop(view, units)}' waits for what it gives out"
        ) from error
    return levels


def unit_order(view: GraphView, levels: Mapping[int, int]) -> list[int]:
    """Units by level, those of one level by name with its numbers as numbers, then by device."""
    return sorted(levels, key=lambda unit: (levels[unit], name_key(view, unit)))


def name_key(view: GraphView, node: int) -> tuple[object, ...]:
    """What a node is sorted by; never its index."""
    return natural_key(view.names[node]), view.names[node], view.nodes[node].device


def _outermost_loops(view: GraphView) -> list[str]:
    """Per node: the frame name of the outermost while loop that it is in, or the empty string."""
    frames: list[tuple[str, ...]] = [()] * len(view)
    for node in view.topological_order:
        outer = max((_given_out(view, frames, f) for f in view.forward_fanins(node)), key=len, default=())
        entered = (string_attr(view.nodes[node], "frame_name"),) if view.ops[node] in ENTER_OPS else ()
        frames[node] = outer + entered
    return [frame[0] if frame else "" for frame in frames]


def _given_out(view: GraphView, frames: Sequence[tuple[str, ...]], node: int) -> tuple[str, ...]:
    """The loops in which a node's outputs are: an Exit hands them to the outer one."""
    return frames[node][:-1] if view.ops[node] in EXIT_OPS else frames[node]


def _first_loop(view: GraphView, units: Sequence[int]) -> str:
    return min(view.names[unit] for node, unit in enumerate(units) if unit != node)
