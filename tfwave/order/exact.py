"""The best of all orders, for few transfers."""

from collections.abc import Sequence

from tfwave.cost.table import Costs
from tfwave.errors import TfwaveError
from tfwave.graph.transfer import Transfer
from tfwave.graph.view import GraphView
from tfwave.order.branch import best_sequence
from tfwave.order.order import Order
from tfwave.order.problem import problem_of
from tfwave.order.subsets import best_of_subsets

LARGEST = 20
"""So many transfers may wait for nothing: each further one doubles the time and memory; 20 take under a second."""


def exact(view: GraphView, transfers: Sequence[Transfer], costs: Costs) -> Order:
    """An order of least makespan (as `sim.makespan` counts it); the priority is the rank.

    Case 1: no transfer waits for anything: over all sets of transfers (`subsets`).
    Case 2: some wait for ops of the task or for other transfers: branch and bound (`branch`).

    Raises:
        TfwaveError: too many transfers, or too many cases to tell apart; says the limit.
        MissingCost: the table does not know a cost; names it.
        CostError: a cost is negative, infinite or not a number; names it.
        GraphError: a cycle, or transfers into more than one task.
    """
    problem = problem_of(view, transfers, costs)
    if not problem.free:
        return problem.order(best_sequence(view, problem))
    if len(transfers) > LARGEST:
        raise TfwaveError(
            f"the policy 'exact' orders at most {LARGEST} transfers, and here are {len(transfers)}: "
            "use the policy 'search'"
        )
    return problem.order(best_of_subsets(problem))
