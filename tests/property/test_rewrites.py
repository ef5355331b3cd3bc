import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grappler_passes.control_edges import ControlEdges
from grappler_passes.counter_barrier import CounterBarrier
from grappler_passes.recv_priority import RecvPriority
from tests.graphs import Job, random_job
from tests.rewrites import check_rewrite
from tfwave.cost.uniform import UniformCosts
from tfwave.errors import PassError, PlanError
from tfwave.graph.item import GraphItem
from tfwave.graph.transfer import find_transfers
from tfwave.graph.view import GraphView
from tfwave.passes.pipeline import Pipeline
from tfwave.plan.annotation import annotated_orders
from tfwave.plan.plan import Plan
from tfwave.planner import PlanRequest, make_plan
from tfwave.proto.tensorflow_pb2 import GraphDef

SEEDS = st.integers(0, 10**9)


def planned(seed: int) -> tuple[Job, Plan]:
    job = random_job(random.Random(seed))
    view, transfers = job.view()
    return job, make_plan(view, transfers, UniformCosts(), PlanRequest("tic"))


def joined(job: Job) -> GraphItem:
    graph = GraphDef()
    for partition in job.partitions:
        graph.node.extend(partition.node)
    return GraphItem(graph, preserve=frozenset({graph.node[0].name}))


@given(SEEDS)
def test_recv_priority_notes_the_plan(seed: int) -> None:
    job, plan = planned(seed)
    item = check_rewrite(RecvPriority(plan), joined(job)).item
    noted = annotated_orders(GraphView.of(item.graph))
    assert {c: [e.key for e in entries] for c, entries in noted.items()} == {
        order.channel: [t.key for t in order.transfers] for order in plan.orders
    }


@given(SEEDS)
def test_control_edges_chain_the_receivers_of_a_channel(seed: int) -> None:
    job, plan = planned(seed)
    pipeline = Pipeline((RecvPriority(plan), ControlEdges()))
    try:
        item = check_rewrite(pipeline, joined(job)).item
    except PassError as error:
        assert "the graph has a cycle" in str(error)  # noqa: PT017
        return
    nodes = {node.name: node for node in item.graph.node}
    for order in plan.orders:
        recvs = [t.node for t in order.transfers]
        for before, after in pairwise(recvs):
            assert f"^{before}" in nodes[after].input


@given(SEEDS, st.integers(2, 4))
def test_a_barrier_orders_its_groups(seed: int, count: int) -> None:
    item = joined(random_job(random.Random(seed)))
    view = GraphView.of(item.graph)
    names = [view.names[i] for i in view.topological_order]
    size = max(1, len(names) // count)
    groups = tuple(tuple(names[i * size : (i + 1) * size]) for i in range(count))
    if not all(groups):
        return
    after = GraphView.of(check_rewrite(CounterBarrier(groups), item).item.graph)
    position = {after.names[node]: i for i, node in enumerate(after.topological_order)}
    for first, second in pairwise(groups):
        assert max(position[n] for n in first) < min(position[n] for n in second)


@given(SEEDS)
def test_a_plan_of_another_job_is_refused(seed: int) -> None:
    job, _ = planned(seed)
    _, plan = planned(seed + 1)
    own = {t.key for t in find_transfers(GraphView.of(*job.partitions)).data}
    if {t.key for t in plan.transfers} <= own:
        return
    with pytest.raises(PlanError, match="made for another graph"):
        RecvPriority(plan)(joined(job))


@given(SEEDS)
def test_notes_of_two_plans_do_not_mix(seed: int) -> None:
    job, plan = planned(seed)
    view, transfers = job.view()
    other = make_plan(view, transfers, UniformCosts(), PlanRequest("reverse"))
    item = RecvPriority(plan)(joined(job)).item
    if [o.transfers for o in plan.orders] == [o.transfers for o in other.orders]:
        return
    assert annotated_orders(GraphView.of(RecvPriority(other)(item).item.graph)) == annotated_orders(
        GraphView.of(RecvPriority(other)(joined(job)).item.graph)
    )
