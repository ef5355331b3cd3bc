"""The first step of a job whose node groups a plan has."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from tfwave.colocate.first import FirstStep, first_step
from tfwave.colocate.life import Life
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


def make_ready(life: Life, planned: PlannedJob) -> ReadyJob | None:
    """Make a step, and find the planned graph in what TensorFlow makes of it; None if the job ended or failed."""
    made = first_step(life, life.instance())
    if life.ended:
        return None
    try:
        return found(planned, made)
    except TfwaveError as error:
        life.fail(error)
        return None


def found(planned: PlannedJob, made: FirstStep) -> ReadyJob:
    """The planned job in what TensorFlow made of its step.

    Raises:
        EnforcerError: TensorFlow's optimizer did not run, or left a group without its ops.
        PlanError: the step is another one.
    """
    name = planned.job.name
    if not made.optimized:
        raise EnforcerError(f"no graph of the job '{name}' was seen: let TensorFlow's graph optimizer run")
    view = GraphView.of(*made.graphs)
    difference = first_difference(planned.graph, view)
    if difference:
        raise PlanError(f"the job '{name}' was planned with another graph: {difference}; plan it again")
    ops = dict(zip(view.names, view.ops, strict=True))
    item = max(reversed(made.optimized), key=lambda item: len(ops.keys() & _names(item)))
    there = _names(item)
    return ReadyJob(replace(planned.job, groups=tuple(_kept(planned.job, ops, there))), item)


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
