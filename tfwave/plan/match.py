"""Does a plan belong to a graph?"""

from tfwave.errors import PlanError
from tfwave.graph.transfer import Transfers
from tfwave.graph.view import GraphView
from tfwave.plan.fingerprint import first_difference
from tfwave.plan.plan import Plan


def check_match(plan: Plan, view: GraphView, transfers: Transfers) -> None:
    """Refuse a plan that was made for another graph.

    Raises:
        PlanError: names the first difference: a transfer, else an op count, else a node.
    """
    difference = _first_transfer_difference(plan, transfers) or first_difference(plan.graph, view)
    if difference:
        raise PlanError(f"the plan was made for another graph: {difference}; make a plan for this one")


def _first_transfer_difference(plan: Plan, transfers: Transfers) -> str | None:
    there = {t.key for t in transfers.data}
    for planned in plan.transfers:
        if planned.key not in there:
            return f"it orders the transfer {planned.key}, which this graph does not have"
    channels = {order.channel for order in plan.orders}
    ordered = {t.key for t in plan.transfers}
    for transfer in transfers.data:
        if transfer.channel in channels and transfer.key not in ordered:
            return f"this graph has the transfer {transfer.key}, which it does not order"
    return None
