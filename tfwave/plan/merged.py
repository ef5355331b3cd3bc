"""Planned jobs in a merged graph: whether they are those that were planned, and which of their nodes have turns."""

from tfwave.errors import GraphError, PlanError
from tfwave.graph.access import FED_OPS, makes_handle
from tfwave.graph.merge import job_of
from tfwave.graph.names import parse_input
from tfwave.graph.ops import OpTable
from tfwave.graph.reach import upstream_of
from tfwave.graph.step import step_of
from tfwave.graph.view import GraphView
from tfwave.plan.fingerprint import first_difference
from tfwave.plan.groups import Groups, OwnStep, PlannedJob

_INITIALISING = frozenset({"Assign", "AssignVariableOp"})


def check_merged(groups: Groups, view: GraphView) -> None:
    """Refuse a graph that does not hold the step of each planned job, under its name, as `tfwave merge` puts it.

    Raises:
        PlanError: names the job, and the first difference: an op count, else a node.
    """
    for planned in groups.jobs:
        _check_job(planned, view)


def slots_of(groups: Groups, view: GraphView) -> list[list[str]]:
    """The nodes that have a turn in each slot, by their names in the merged graph; a slot without any is left out.

    1. The plan names the nodes that TensorFlow's optimizer left. Those that it made, of others, the graph has not:
       they come with the nodes around them.
    2. Constants, handles and what is fed wait for nothing, nor does what a variable's first value is made of: an
       initialiser runs no step.
    """
    table = OpTable()
    free = _of_initialisers(groups, view)
    there = {
        name for node, name in enumerate(view.names) if node not in free and not _is_given(view, node, table)
    }
    ops = {planned.job.name: [group.ops for group in planned.job.groups] for planned in groups.jobs}
    slots = [
        [name for turn in slot for op in ops[turn.job][turn.group] if (name := f"{turn.job}/{op}") in there]
        for slot in groups.slots
    ]
    return [slot for slot in slots if slot]


def _check_job(planned: PlannedJob, view: GraphView) -> None:
    name, own = planned.job.name, _own(planned)
    job = job_of(view.nodes, name)
    if not job.node:
        raise PlanError(
            f"the graph has no job '{name}', which is planned: name the graphs that are merged as the bundles, "
            f"such as '{name}.pb'"
        )
    try:
        difference = first_difference(own.graph, GraphView.of(step_of(job, own.fetches)))
    except GraphError as error:
        difference = str(error)
    if difference:
        raise PlanError(
            f"the job '{name}' was planned with another graph: {difference}; merge the graph that was captured, "
            "or capture this one and plan again"
        )


def _own(planned: PlannedJob) -> OwnStep:
    if planned.own is None:
        raise PlanError(
            f"the plan does not know the graph that the job '{planned.job.name}' was made of: capture its session "
            "with tfwave.capture_run, and plan again"
        )
    return planned.own


def _of_initialisers(groups: Groups, view: GraphView) -> frozenset[int]:
    """What assignments outside of the planned steps need."""
    index = {name: node for node, name in enumerate(view.names)}
    fetched = (f"{planned.job.name}/{fetch}" for planned in groups.jobs for fetch in _own(planned).fetches)
    steps = upstream_of(view, [index[parse_input(fetch).node] for fetch in fetched])
    first = [node for node, op in enumerate(view.ops) if op in _INITIALISING and node not in steps]
    return upstream_of(view, first)


def _is_given(view: GraphView, node: int, table: OpTable) -> bool:
    op = view.ops[node]
    if op == "Const" or op in FED_OPS or op.startswith("Placeholder"):
        return True
    return table.known(op) is not None and makes_handle(view.nodes[node], table)
