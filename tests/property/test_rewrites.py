import random
from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from grappler_passes.ack_window import AckWindow
from grappler_passes.control_edges import ControlEdges
from grappler_passes.counter_barrier import CounterBarrier
from grappler_passes.cut import Cut
from grappler_passes.recv_priority import RecvPriority
from tests.graphs import WORKER, Job, random_job
from tests.rewrites import check_rewrite
from tests.uncut import random_uncut
from tfwave.cost.network import Network
from tfwave.cost.uniform import uniform_costs
from tfwave.errors import GraphError, PassError, PlanError
from tfwave.graph.item import GraphItem
from tfwave.graph.partition.cut import cut
from tfwave.graph.transfer import find_transfers
from tfwave.graph.view import GraphView
from tfwave.passes.pipeline import Pipeline
from tfwave.plan.annotation import annotated_orders
from tfwave.plan.plan import Plan
from tfwave.planner import PlanRequest, make_plan
from tfwave.proto.tensorflow_pb2 import GraphDef

SEEDS = st.integers(0, 10**9)
EXAMPLES = settings(max_examples=60, deadline=None, database=None, derandomize=True)


def cut_view(item: GraphItem) -> GraphView:
    return GraphView.of(*cut(item))


def plan_uncut(item: GraphItem, policy: str = "tic") -> Plan:
    view = cut_view(item)
    transfers = find_transfers(view).into(WORKER).data
    assume(transfers)
    return make_plan(view, transfers, Network(uniform_costs(view)), PlanRequest(policy))


def planned(seed: int) -> tuple[Job, Plan]:
    job = random_job(random.Random(seed))
    view, transfers = job.view()
    assume(transfers)
    return job, make_plan(view, transfers, Network(uniform_costs(view)), PlanRequest("tic"))


def joined(job: Job) -> GraphItem:
    graph = GraphDef()
    for partition in job.partitions:
        graph.node.extend(partition.node)
    return GraphItem(graph, preserve=frozenset({graph.node[0].name}))


@EXAMPLES
@given(SEEDS)
def test_recv_priority_notes_the_plan(seed: int) -> None:
    job, plan = planned(seed)
    item = check_rewrite(RecvPriority(plan), joined(job)).item
    noted = annotated_orders(GraphView.of(item.graph))
    assert {c: [e.key for e in entries] for c, entries in noted.items()} == {
        order.channel: [t.key for t in order.transfers] for order in plan.orders
    }


@EXAMPLES
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


@EXAMPLES
@given(SEEDS, st.integers(2, 4))
def test_a_barrier_orders_its_groups(seed: int, count: int) -> None:
    item = joined(random_job(random.Random(seed)))
    for node in item.graph.node:
        node.op = node.op.replace("AddN", "Pack")  # sums may be one kernel, which is in one group
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


@EXAMPLES
@given(SEEDS)
def test_a_plan_of_another_job_is_refused(seed: int) -> None:
    job, _ = planned(seed)
    _, plan = planned(seed + 1)
    own = {t.key for t in find_transfers(GraphView.of(*job.partitions)).data}
    if {t.key for t in plan.transfers} <= own:
        return
    with pytest.raises(PlanError, match="made for another graph"):
        RecvPriority(plan)(joined(job))


@EXAMPLES
@given(SEEDS)
def test_notes_of_two_plans_do_not_mix(seed: int) -> None:
    job, plan = planned(seed)
    view, transfers = job.view()
    other = make_plan(view, transfers, Network(uniform_costs(view)), PlanRequest("reverse"))
    item = RecvPriority(plan)(joined(job)).item
    if [o.transfers for o in plan.orders] == [o.transfers for o in other.orders]:
        return
    assert annotated_orders(GraphView.of(RecvPriority(other)(item).item.graph)) == annotated_orders(
        GraphView.of(RecvPriority(other)(joined(job)).item.graph)
    )


@EXAMPLES
@given(SEEDS, st.integers(1, 4))
def test_each_transfer_waits_for_the_arrival_of_the_one_a_window_before(seed: int, window: int) -> None:
    item = random_uncut(random.Random(seed))
    plan = plan_uncut(item)
    rewritten = check_rewrite(Pipeline((RecvPriority(plan), AckWindow(window))), item).item
    nodes = {node.name: node for node in rewritten.graph.node}
    for order in plan.orders:
        names = [f"{t.key.node}/ack_{{}}_{t.key.port}" for t in order.transfers]
        for k, name in enumerate(names):
            hold, gate = nodes[name.format("hold")], nodes[name.format("gate")]
            acks = [f"^{names[k - window].format('gate')}"] if k >= window else []
            chain = [f"^{names[k - 1].format('hold')}"] if k and window > 1 else []
            assert list(hold.input) == [order.transfers[k].key.node, *acks, *chain]
            assert (hold.device, gate.device) == (order.channel.source, order.channel.destination)
            assert list(gate.input) == [hold.name]


@EXAMPLES
@given(SEEDS, st.integers(1, 4))
def test_all_that_crosses_on_a_planned_channel_goes_through_its_gate(seed: int, window: int) -> None:
    item = random_uncut(random.Random(seed))
    plan = plan_uncut(item)
    rewritten = Pipeline((RecvPriority(plan), AckWindow(window)))(item).item
    channels = {order.channel for order in plan.orders}
    crossing = [t.key for t in find_transfers(cut_view(rewritten)).data if t.channel in channels]
    assert {key.node for key in crossing} == {f"{t.key.node}/ack_hold_{t.key.port}" for t in plan.transfers}


@EXAMPLES
@given(SEEDS)
def test_a_cut_graph_is_that_of_the_partitions(seed: int) -> None:
    item = random_uncut(random.Random(seed))
    view = GraphView.of(check_rewrite(Cut(), item).item.graph)
    found = {transfer.key for transfer in find_transfers(view).data}
    assert found == {transfer.key for transfer in find_transfers(cut_view(item)).data}
    for node, fanins in enumerate(view.fanins):
        for fanin in fanins[: view.data_fanins[node]]:
            assert view.nodes[fanin].device == view.nodes[node].device


@EXAMPLES
@given(SEEDS)
def test_a_plan_fits_the_graph_before_and_after_the_cut(seed: int) -> None:
    item = random_uncut(random.Random(seed))
    plan = plan_uncut(item)
    before = annotated_orders(GraphView.of(RecvPriority(plan)(item).item.graph))
    after = annotated_orders(GraphView.of(Pipeline((Cut(), RecvPriority(plan)))(item).item.graph))
    assert {c: [e.key for e in es] for c, es in before.items()} == {
        c: [e.key for e in es] for c, es in after.items()
    }


def test_a_window_that_lets_nothing_through_is_refused() -> None:
    with pytest.raises(PassError, match="the window is 0"):
        AckWindow(0)


@EXAMPLES
@given(SEEDS)
def test_another_window_needs_a_strip_first(seed: int) -> None:
    item = random_uncut(random.Random(seed))
    plan = plan_uncut(item)
    once = Pipeline((RecvPriority(plan), AckWindow(1)))(item).item
    with pytest.raises(GraphError, match="of another rewrite: strip the graph first"):
        AckWindow(2)(once)
