"""The first step of a job whose node groups a plan has."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from tfwave.colocate.first import FirstStep, first_step
from tfwave.colocate.life import Stepping
from tfwave.errors import EnforcerError, PlanError, TfwaveError
from tfwave.graph.item import GraphItem
from tfwave.graph.view import GraphView
from tfwave.plan.fingerprint import first_difference
from tfwave.plan.groups import GroupedJob, Groups, NodeGroup, PlannedJob

_MADE_LATER = frozenset({"Const", "_Arg", "_Retval"})
"""What TensorFlow makes on its way from an optimized graph to the one that runs, or folds there."""


@dataclass(frozen=True)
class ReadyJob:
    """A job in its groups, and the graph, as TensorFlow's optimizer left it, that is to be given their barriers."""

    job: GroupedJob
    item: GraphItem


def check_names(groups: Groups, names: Iterable[str]) -> None:
    """Refuse a plan for other jobs.

    Raises:
        PlanError: it has none of a name, or one more; names it.
    """
    planned, wanted = {each.job.name for each in groups.jobs}, set(names)
    for name in sorted(planned ^ wanted):
        lacks = "does not have" if name in wanted else "has"
        raise PlanError(f"the plan {lacks} the job '{name}': plan the jobs that are run, by their names")


def make_ready(life: Stepping, planned: PlannedJob) -> ReadyJob | None:
    """Make a step, and find the planned graph in what TensorFlow makes of it; None if the job ended or failed."""
    made = first_step(life, life.instance())
    if life.ended:
        return None
    try:
        check_graph(planned, made)
        return found(planned.job, made)
    except TfwaveError as error:
        life.fail(error)
        return None


def check_graph(planned: PlannedJob, made: FirstStep) -> None:
    """Refuse a step that is not what was planned.

    Raises:
        PlanError: it is another one.
    """
    difference = first_difference(planned.graph, GraphView.of(*made.graphs))
    if difference:
        name = planned.job.name
        raise PlanError(
            f"the job '{name}' was planned with another graph: {difference}; plan it again, or, where its model is "
            "built again in this process, and Keras counts its layers on, call keras.backend.clear_session() before"
        )


def found(job: GroupedJob, made: FirstStep) -> ReadyJob:
    """A job that is cut into groups of the graphs that run, in what TensorFlow's optimizer left.

    Raises:
        EnforcerError: the optimizer did not run, or left a group without its ops.
    """
    if not made.optimized:
        raise EnforcerError(
            f"no graph of the job '{job.name}' was seen: let TensorFlow's graph optimizer run"
        )
    ops = {node.name: node.op for graph in made.graphs for node in graph.node}
    item = max(reversed(made.optimized), key=lambda item: len(ops.keys() & _names(item)))
    there = _names(item)
    return ReadyJob(replace(job, groups=tuple(_kept(job, ops, there))), item)


def _kept(job: GroupedJob, ops: dict[str, str], there: set[str]) -> Iterator[NodeGroup]:
    """The groups without what TensorFlow makes only behind its optimizer."""
    for group in job.groups:
        gone = [op for op in group.ops if op not in there]
        strange = [op for op in gone if ops.get(op) not in _MADE_LATER]
        kept = tuple([op for op in group.ops if op in there])
        if strange or not kept:
            raise EnforcerError(
                f"node '{(strange or gone)[0]}' of the job '{job.name}' is not in the graph that TensorFlow's "
                "optimizer left: its barriers have no place"
            )
        yield replace(group, ops=kept)


def _names(item: GraphItem) -> set[str]:
    return {node.name for node in item.graph.node}
