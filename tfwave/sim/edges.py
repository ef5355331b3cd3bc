"""What the simulators read off a graph: what waits for what, and who waits in vain."""

from collections.abc import Sequence

from tfwave.errors import PlanError
from tfwave.graph.flow_ops import MERGE_OPS, NEXT_OPS
from tfwave.graph.view import GraphView
from tfwave.sim.engine import Outcome


def forward_edges(view: GraphView) -> tuple[list[Sequence[int]], list[int]]:
    """Fanouts and fanin counts of each node, without the back edges of while loops."""
    fanouts: list[Sequence[int]] = list(view.fanouts)
    for node, op in enumerate(view.ops):
        if op in NEXT_OPS:
            fanouts[node] = [target for target in view.fanouts[node] if view.ops[target] not in MERGE_OPS]
    return fanouts, [len(view.forward_fanins(node)) for node in range(len(view))]


def refuse_deadlock(view: GraphView, outcome: Outcome) -> None:
    """Refuse an order that some channel could not keep to its end.

    Raises:
        PlanError: names the first transfer, by the name of its `_Recv`, that a counter waits for in vain.
    """
    if outcome.blocked:
        node = min(view.names[task] for task in outcome.blocked)
        raise PlanError(
            f"the order waits for itself: the transfer into '{node}' depends on a later one; "
            "put a transfer after all that it depends on"
        )
