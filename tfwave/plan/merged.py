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
from tfwave.proto.tensorflow_pb2 import NodeDef

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
       they come with the nodes around them, or with the call, loop or branch that they are of.
    2. Constants, handles and what is fed wait for nothing, nor does what a variable's first value is made of: an
       initialiser runs no step.
    """
    nodes = _PlannedNodes(groups, view)
    ops = {planned.job.name: [group.ops for group in planned.job.groups] for planned in groups.jobs}
    slots = [
        dict.fromkeys(
            name
            for turn in slot
            for op in ops[turn.job][turn.group]
            if (name := nodes.find(f"{turn.job}/{op}"))
        )
        for slot in groups.slots
    ]
    return [list(slot) for slot in slots if slot]


class _PlannedNodes:
    """The nodes of a merged graph that can have a turn."""

    def __init__(self, groups: Groups, view: GraphView) -> None:
        table = OpTable()
        free = _of_initialisers(groups, view)
        nodes = [node for node in range(len(view)) if node not in free]
        self._there = {view.names[node] for node in nodes if not _is_given(view, node, table)}
        self._calling = {view.names[node] for node in nodes if _calls(view.nodes[node], table)}

    def find(self, name: str) -> str:
        """The node of a name, or that which the optimizer made it of; empty if there is none."""
        if name in self._there:
            return name
        while name and name not in self._calling:
            name = name.rpartition("/")[0]
        return name


def merged_difference(own: OwnStep, name: str, view: GraphView) -> str | None:
    """How a job's own step differs in a merged graph, in words; None if it does not."""
    job = job_of(view.nodes, name)
    if not job.node:
        return f"it has no job '{name}'"
    try:
        return first_difference(own.graph, GraphView.of(step_of(job, own.fetches)))
    except GraphError as error:
        return str(error)


def _check_job(planned: PlannedJob, view: GraphView) -> None:
    name, own = planned.job.name, _own(planned)
    if not any(node.startswith(f"{name}/") for node in view.names):
        raise PlanError(
            f"the graph has no job '{name}', which is planned: name the graphs that are merged as the bundles, "
            f"such as '{name}.pb'"
        )
    difference = merged_difference(own, name, view)
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


def _calls(node: NodeDef, table: OpTable) -> bool:
    """Does a node call a function, of its library if it is no op of TensorFlow?"""
    return table.known(node.op) is None or table.calls_functions(node)


def _is_given(view: GraphView, node: int, table: OpTable) -> bool:
    op = view.ops[node]
    if op == "Const" or op in FED_OPS or op.startswith("Placeholder"):
        return True
    return table.known(op) is not None and makes_handle(view.nodes[node], table)
