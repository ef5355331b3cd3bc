"""The branches and loops of a graph, each as a whole."""

from collections.abc import Collection, Iterable, Sequence

from tfwave.graph.attrs import string_attr
from tfwave.graph.flow_ops import ENTER_OPS, EXIT_OPS, SWITCH_OPS
from tfwave.graph.reach import in_control_flow
from tfwave.graph.view import GraphView


def flow_regions(view: GraphView) -> list[int]:
    """Per node: the node that stands for its region, one of those in it; outside of branches and loops, itself.

    1. A while loop: all nodes from its Enters to its Exits, the loops inside it included.
    2. A branch: what data leads to in it, from its Switches to its Merges, these included. Two parts of it that
       share no data, such as what computes two outputs, are regions of their own.
    3. What begins a branch, a Switch or a constant, and leads into several regions, is in none: Grappler lets a
       branch and its gradient share them.
    4. Parts that wait for each other are one, as where what a branch writes is waited for: its pivots lead to all
       in it by control edges, and all in it to the Merge of these pivots.

    Before it is lowered, each of them is one node.
    """
    from networkx.utils import UnionFind

    regions = UnionFind(range(len(view)))
    first: dict[str, int] = {}
    for node, loop in enumerate(_outermost_loops(view)):
        if loop:
            regions.union(first.setdefault(loop, node), node)
    inside = in_control_flow(view)
    begins = [node for node in inside if _begins(view, node, inside)]
    joining = inside.difference(begins)
    for node in range(len(view)):
        for fanin in view.fanins[node][: view.data_fanins[node]]:
            if fanin in joining:
                regions.union(fanin, node)
    led_to = {node: {regions[reader] for reader in _data_fanouts(view, node)} for node in begins}
    for node, found in led_to.items():
        if len(found) == 1:
            regions.union(node, *found)
    for together in _waiting_for_each_other(view, [regions[node] for node in range(len(view))], inside):
        regions.union(*together)
    return [regions[node] for node in range(len(view))]


def is_entry(view: GraphView, node: int, inside: Collection[int]) -> bool:
    """Does a node lead into a branch or loop, from outside? `inside` is `in_control_flow` of the view."""
    leads = view.ops[node] in SWITCH_OPS or view.ops[node] in ENTER_OPS
    return leads and all(fanin not in inside for fanin in view.fanins[node])


def _begins(view: GraphView, node: int, inside: Collection[int]) -> bool:
    """Does nothing of a branch lead to a node in it, but what chooses the branch?"""
    return not view.data_fanins[node] or (view.ops[node] in SWITCH_OPS and is_entry(view, node, inside))


def _waiting_for_each_other(
    view: GraphView, regions: Sequence[int], inside: Collection[int]
) -> Iterable[Collection[int]]:
    """Regions with nodes inside of branches and loops, those together of which each leads to the others."""
    import networkx as nx

    flow = {regions[node] for node in inside}
    waits = nx.DiGraph(
        (regions[fanin], regions[node])
        for node in range(len(view))
        for fanin in view.forward_fanins(node)
        if regions[fanin] in flow and regions[node] in flow
    )
    return nx.strongly_connected_components(waits)


def _data_fanouts(view: GraphView, node: int) -> list[int]:
    return [r for r in view.fanouts[node] if node in view.fanins[r][: view.data_fanins[r]]]


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
