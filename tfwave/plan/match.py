"""Does a plan belong to a graph?"""

from tfwave.errors import PlanError
from tfwave.graph.transfer import Transfers
from tfwave.graph.view import GraphView
from tfwave.plan.fingerprint import GraphPrint, first_difference, graph_print
from tfwave.plan.groups import Groups, PlannedJob
from tfwave.plan.merged import merged_difference
from tfwave.plan.plan import Plan


def check_match(plan: Plan, view: GraphView, transfers: Transfers) -> None:
    """Refuse a plan whose order was made for another graph.

    Raises:
        PlanError: names the first difference: a transfer, else an op count, else a node.
    """
    difference = _order_difference(plan, view, transfers)
    if difference:
        raise _other_graph(difference)


def parts_of_graph(plan: Plan, view: GraphView, transfers: Transfers, whole: GraphView) -> tuple[str, ...]:
    """What of a plan was made for this graph, in words: its order, jobs, waves, memory. Each has its own.

    `view` is the graph as it was cut, by which transfers are ordered; `whole` is the graph before that.

    Raises:
        PlanError: nothing of it; names the first difference.
    """
    differences: dict[str, str | None] = {}
    if plan.has_order:
        differences["the order"] = _order_difference(plan, view, transfers)
    given = graph_print(whole) if plan.groups or plan.waves or plan.memory else None
    for planned in plan.groups.jobs if plan.groups else ():
        differences[f"the job '{planned.job.name}'"] = _job_difference(planned, whole, given)
    if plan.waves:
        differences["the waves"] = first_difference(plan.waves.graph, whole, given)
    if plan.memory:
        differences["the memory"] = first_difference(plan.memory.graph, whole, given)
    fitting = tuple([part for part, difference in differences.items() if difference is None])
    for difference in differences.values():
        if difference and not fitting:
            raise _other_graph(difference)
    return fitting


def check_jobs(groups: Groups, view: GraphView) -> None:
    """Refuse jobs of which none is this graph's.

    Raises:
        PlanError: names the first difference from the first of them.
    """
    given = graph_print(view)
    differences = [_job_difference(planned, view, given) for planned in groups.jobs]
    if differences and None not in differences:
        raise _other_graph(f"the job '{groups.jobs[0].job.name}': {differences[0]}")


def check_graph(planned: GraphPrint, view: GraphView) -> None:
    """Refuse a section that was made for another graph.

    Raises:
        PlanError: names the first difference: an op count, else a node.
    """
    difference = first_difference(planned, view)
    if difference:
        raise _other_graph(difference)


def _other_graph(difference: str) -> PlanError:
    return PlanError(f"the plan was made for another graph: {difference}; make a plan for this one")


def _job_difference(planned: PlannedJob, view: GraphView, given: GraphPrint | None) -> str | None:
    """Is it the graph that the job's step ran, or one that the job's own was merged into?"""
    difference = first_difference(planned.graph, view, given)
    if difference is None or planned.own is None:
        return difference
    name = planned.job.name
    is_merged = any(node.startswith(f"{name}/") for node in view.names)
    return merged_difference(planned.own, name, view) if is_merged else difference


def _order_difference(plan: Plan, view: GraphView, transfers: Transfers) -> str | None:
    return _first_transfer_difference(plan, transfers) or first_difference(plan.graph, view)


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
