"""The general time oracle of TIC."""

from tfwave.cost.model import CostSource
from tfwave.cost.table import Costs
from tfwave.graph.view import RECV_OPS, GraphView

UNIFORM = CostSource("uniform", "uniform")
"""Nothing was timed."""


def is_timed(costs: CostSource) -> bool:
    """Are they seconds? Without times each transfer counts as one, and each op as nothing."""
    return costs != UNIFORM


def uniform_costs(view: GraphView) -> Costs:
    """1 s for each transfer and 0 s for each op (TicTac section 4.2, Eq. 5): counts transfers."""
    transfers = {node: 1.0 for node, op in enumerate(view.ops) if op in RECV_OPS}
    return Costs(view, dict.fromkeys(range(len(view)), 0.0), transfers, UNIFORM)
