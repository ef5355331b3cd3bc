"""The barriers of a plan of jobs in one memory, in the graph that the jobs' own graphs were merged into."""

import networkx as nx
import pytest

from grappler_passes.counter_barrier import CounterBarrier
from tests.rewrites import check_rewrite, edges, graph_bytes
from tests.unit.merged import FETCHES, item, job, plan_of, planned
from tfwave.errors import PassError, PlanError
from tfwave.graph.item import GraphItem
from tfwave.graph.merge import merge
from tfwave.graph.transfer import find_transfers
from tfwave.graph.view import GraphView
from tfwave.passes.text import parse_pipeline
from tfwave.plan.groups import Groups, Turn
from tfwave.plan.match import parts_of_graph
from tfwave.plan.message import from_proto, to_proto
from tfwave.plan.placement import Placement
from tfwave.plan.plan import Plan
from tfwave.proto.tensorflow_pb2 import GraphDef

AB = plan_of(planned("a", job()), planned("b", job(2.0)))


def both() -> GraphItem:
    return merge({"a": item(), "b": item(2.0)})


@pytest.fixture(scope="module")
def calm() -> nx.DiGraph:
    """The edges of two jobs in turn."""
    return edges(check_rewrite(parse_pipeline("counter_barrier", AB), both()).item.graph)


def test_the_second_job_waits_for_all_of_the_first(calm: nx.DiGraph) -> None:
    for node in ("read", "product", "activation", "loss", "slope", "train"):
        before = nx.ancestors(calm, f"b/{node}")
        assert {f"a/{other}" for other in ("product", "activation", "loss", "slope", "train")} <= before
        assert not any(name.startswith("b/") for name in nx.ancestors(calm, f"a/{node}"))
    assert nx.is_directed_acyclic_graph(calm)


def test_an_initialiser_runs_no_step(calm: nx.DiGraph) -> None:
    """Though the step, too, reads what it begins with. Nor does what is fed wait, a constant or a handle."""
    for name in "ab":
        assert nx.ancestors(calm, f"{name}/init") == {
            f"{name}/{node}" for node in ("w", "start", "begin", "first")
        }
        assert not any(calm.in_degree(f"{name}/{node}") for node in ("w", "start", "x"))


def test_a_kernel_is_neither_parted_nor_touched() -> None:
    """The plan has 'product' and 'activation' in two groups: TensorFlow may compute both at once."""
    graph = parse_pipeline("counter_barrier", AB)(both()).item.graph
    inputs = {node.name: list(node.input) for node in graph.node}
    for name in "ab":
        assert inputs[f"{name}/activation"] == [f"{name}/product"]
        assert not [text for text in inputs[f"{name}/product"] if text.startswith("^")]
    assert not any("^a/activation" in texts or "^a/product" in texts for texts in inputs.values())


def test_what_the_optimizer_made_away_with_makes_no_cycle() -> None:
    """It saw no 'size', by way of which 'train' waits for 'loss', and so the plan has 'train' first."""
    ops = (("begin", "read", "product", "activation", "slope"), ("train",), ("loss",))
    plan = plan_of(planned("a", job(), ops=ops), planned("b", job(2.0), ops=ops))
    made = edges(check_rewrite(CounterBarrier(plan=plan), both()).item.graph)
    assert nx.is_directed_acyclic_graph(made)
    assert {"a/train", "a/loss"} <= nx.ancestors(made, "b/read")


def test_steps_beside_each_other_have_nothing_to_part() -> None:
    beside = plan_of(planned("a", job()), planned("b", job(2.0))).groups
    assert beside is not None
    (one, two) = (
        type(p)(type(p.job)(p.job.name, (p.job.groups[0],), 0), p.graph, p.own) for p in beside.jobs
    )
    plan = Plan(groups=Groups(100, (one, two), ((Turn("a", 0), Turn("b", 0)),), 10, 0.0, 0.0))
    result = check_rewrite(CounterBarrier(plan=plan), both())
    assert not result.edits
    assert result.remarks == ("the plan has all that runs in one slot, so that there is nothing to part",)


def test_a_graph_merged_with_itself_and_a_third() -> None:
    three = merge({"a": item(), "a-2": item(), "b": item(2.0)})
    plan = plan_of(planned("a", job()), planned("a-2", job()), planned("b", job(2.0)))
    made = edges(check_rewrite(CounterBarrier(plan=plan), three).item.graph)
    assert "a-2/train" in nx.ancestors(made, "b/read")
    assert "a/train" in nx.ancestors(made, "a-2/read")


@pytest.mark.parametrize(
    ("name", "graph", "says"),
    [
        (
            "c",
            job(),
            "the graph has no job 'c', which is planned: name the graphs that are merged as the bundles",
        ),
        ("b", job(3.0), "the job 'b' was planned with another graph: node 'start' differs"),
    ],
)
def test_a_plan_of_other_jobs_is_refused(name: str, graph: GraphDef, says: str) -> None:
    plan = plan_of(planned("a", job()), planned(name, graph))
    with pytest.raises(PlanError, match=says):
        CounterBarrier(plan=plan)(both())


def test_a_job_whose_own_graph_is_not_known_is_refused() -> None:
    plan = plan_of(planned("a", job()), planned("b", job(2.0), own=False))
    with pytest.raises(
        PlanError, match="the plan does not know the graph that the job 'b' was made of: capture"
    ):
        CounterBarrier(plan=plan)(both())


def test_a_fetch_that_the_merged_graph_lacks() -> None:
    lacking = both()
    del lacking.graph.node[-1]
    lacking = GraphItem(lacking.graph)
    with pytest.raises(
        PlanError, match="the job 'b' was planned with another graph: the fetch 'train' names a node"
    ):
        CounterBarrier(plan=AB)(lacking)


def test_what_else_is_in_the_graph_does_not_matter() -> None:
    """A saver, an evaluation: the step alone is what was planned; nor do the shapes that a SavedModel notes."""
    more = job(2.0)
    more.node.add(name="evaluation", op="Identity", input=["loss"]).attr["T"].type = 1
    more.node[5].attr["_output_shapes"].list.shape.add().unknown_rank = True
    CounterBarrier(plan=AB)(merge({"a": item(), "b": GraphItem(more)}))


def test_parts_of_a_plan_are_told_of_a_merged_graph() -> None:
    view = GraphView.of(both().graph)
    assert parts_of_graph(AB, view, find_transfers(view), view) == ("the job 'a'", "the job 'b'")
    alone = GraphView.of(merge({"a": item(), "c": item()}).graph)
    assert parts_of_graph(AB, alone, find_transfers(alone), alone) == ("the job 'a'",)
    changed = GraphView.of(merge({"a": item(3.0), "c": item()}).graph)
    with pytest.raises(PlanError, match="the plan was made for another graph: node 'start' differs"):
        parts_of_graph(AB, changed, find_transfers(changed), changed)


def test_a_plan_that_has_no_jobs_and_no_groups_is_refused() -> None:
    for plan in (None, Plan(placement=Placement(1, {"w": 0}))):
        with pytest.raises(
            PassError, match="two groups or more, each with a node, or a plan of `tfwave colocate"
        ):
            CounterBarrier(plan=plan)


def test_groups_that_are_named_are_taken_before_a_plans() -> None:
    named = CounterBarrier((("a/read",), ("b/read",)), plan=AB)
    assert graph_bytes(named(both()).item) == graph_bytes(CounterBarrier(named.groups)(both()).item)


def test_a_plan_file_keeps_the_own_step() -> None:
    read = from_proto(to_proto(AB))
    assert read == AB
    assert read.groups is not None
    assert read.groups.jobs[0].own is not None
    assert read.groups.jobs[0].own.fetches == FETCHES
