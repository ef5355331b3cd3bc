"""Which jobs and ops a plan of co-located jobs must have; nothing here runs TensorFlow."""

import re

import pytest

from tests.grouped import graph_of
from tfwave.colocate.first import FirstStep
from tfwave.colocate.planned import check_graph, check_names, found
from tfwave.errors import EnforcerError, PlanError
from tfwave.graph.item import GraphItem
from tfwave.graph.view import GraphView
from tfwave.plan.fingerprint import graph_print
from tfwave.plan.groups import GroupedJob, Groups, NodeGroup, PlannedJob, Turn

RAN = graph_of(a="", b="a", folded="")
RAN.node[2].op = "Const"


def in_groups(*groups: str) -> GroupedJob:
    return GroupedJob("job", tuple(NodeGroup(tuple(ops.split()), 0, 0, 1, 1) for ops in groups), 0)


PLANNED = PlannedJob(in_groups("a"), graph_print(GraphView.of(RAN)))


def optimized(**nodes: str) -> GraphItem:
    return GraphItem(graph_of(**nodes))


def test_groups_are_found_in_what_the_optimizer_left() -> None:
    """The last graph that has most of the ops; what TensorFlow folds later has no barrier."""
    small, large = optimized(a=""), optimized(a="", b="a", more="")
    for seen in ([small, large], [large, small]):
        ready = found(in_groups("a folded", "b"), FirstStep(seen, [RAN]))
        assert ready.item is large
        assert [group.ops for group in ready.job.groups] == [("a",), ("b",)]
    again = optimized(a="", b="a")
    assert found(in_groups("a", "b"), FirstStep([large, again], [RAN])).item is again


@pytest.mark.parametrize(("groups", "node"), [(("a", "b"), "b"), (("a", "folded"), "folded")])
def test_a_group_without_a_place_is_refused(groups: tuple[str, ...], node: str) -> None:
    with pytest.raises(
        EnforcerError, match=f"node '{node}' of the job 'job' is not in the graph that TensorFlow"
    ):
        found(in_groups(*groups), FirstStep([optimized(a="")], [RAN]))


def test_another_graph_or_none_is_refused() -> None:
    other = graph_of(a="", b="a")
    with pytest.raises(
        PlanError, match="the job 'job' was planned with another graph: the planned graph has 1 Const"
    ):
        check_graph(PLANNED, FirstStep([optimized(a="")], [other]))
    named = graph_of(a="", other="a", folded="")
    named.node[2].op = "Const"
    with pytest.raises(
        PlanError, match=r"node 'folded' differs: its name.*call keras.backend.clear_session\(\) before"
    ):
        check_graph(PLANNED, FirstStep([], [named]))
    check_graph(PLANNED, FirstStep([], [RAN]))
    with pytest.raises(EnforcerError, match="no graph of the job 'job' was seen"):
        found(in_groups("a"), FirstStep([], [RAN]))


@pytest.mark.parametrize(("names", "says"), [("x", "has the job 'y'"), ("xyz", "does not have the job 'z'")])
def test_a_plan_has_the_jobs_that_are_run(names: str, says: str) -> None:
    jobs = tuple(
        PlannedJob(GroupedJob(name, (NodeGroup(("a",), 0, 0, 1, 1),), 0), graph_print(GraphView.of(RAN)))
        for name in "xy"
    )
    groups = Groups(10, jobs, ((Turn("x", 0), Turn("y", 0)),), 2, 0.0, 0.0)
    check_names(groups, "xy")
    with pytest.raises(PlanError, match=re.escape(f"the plan {says}: plan the jobs that are run")):
        check_names(groups, names)
