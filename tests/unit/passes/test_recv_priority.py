"""Which plans recv_priority takes."""

import random
from dataclasses import replace

import pytest

from grappler_passes.recv_priority import RecvPriority
from tests.bundles import small_graphs
from tests.graphs import SERVERS, WORKER
from tests.plans import plan_by_hand
from tests.rewrites import check_rewrite
from tests.uncut import random_uncut
from tfwave.errors import PassError, PlanError, TfwaveError
from tfwave.graph.item import GraphItem
from tfwave.graph.names import Channel
from tfwave.graph.verify import verify
from tfwave.graph.view import GraphView
from tfwave.passes.text import parse_pipeline
from tfwave.plan.annotation import annotated_orders
from tfwave.plan.plan import Plan
from tfwave.planner.uncaptured import plan_graph
from tfwave.proto.tensorflow_pb2 import DT_FLOAT, GraphDef

PULLS, PUSHES = Channel(SERVERS[0], WORKER), Channel(WORKER, SERVERS[0])


def whole_plan() -> Plan:
    return plan_by_hand({PULLS: ["v2", "v3", "v1"], PUSHES: ["grad"]})


def worker() -> GraphItem:
    return GraphItem(next(g for g in small_graphs() if g.node[0].device == WORKER))


def test_one_partition_takes_the_plan_of_a_whole_job() -> None:
    item = check_rewrite(RecvPriority(whole_plan()), worker()).item
    noted = annotated_orders(GraphView.of(item.graph))
    assert {c: [e.key.node for e in entries] for c, entries in noted.items()} == {PULLS: ["v2", "v3", "v1"]}


def test_a_plan_that_lacks_one_of_the_transfers_is_refused() -> None:
    plan = plan_by_hand({PULLS: ["v2", "v3"]})
    with pytest.raises(PlanError, match=r"this one has the transfer v1:0;.*, which it does not order"):
        RecvPriority(plan)(worker())


def test_a_plan_with_a_transfer_too_many_is_refused() -> None:
    plan = plan_by_hand({PULLS: ["v2", "v3", "v1", "v4"]})
    with pytest.raises(PlanError, match=r"it orders the transfer v4:0;.*, which this one does not have"):
        RecvPriority(plan)(worker())


def branching(*, calls: str = "StatelessIf") -> GraphItem:
    """A worker that reads v1 itself, and another variable in the branches of a node."""
    graph = GraphDef()
    for name in ("branch", "other"):
        graph.library.function.add().signature.name = name
    for name in ("v1", "v2"):
        value = graph.node.add(name=name, op="Const", device=SERVERS[0])
        value.attr["dtype"].type = DT_FLOAT
        value.attr["value"].tensor.dtype = DT_FLOAT
        value.attr["value"].tensor.float_val.append(1)
    branch = graph.node.add(name="cond", op=calls, device=WORKER, input=["v1", "v2"])
    branch.attr["Tcond"].type = DT_FLOAT
    branch.attr["Tin"].list.type.append(DT_FLOAT)
    branch.attr["Tout"].list.type.append(DT_FLOAT)
    branch.attr["then_branch"].func.name, branch.attr["else_branch"].func.name = "branch", "other"
    read = graph.node.add(name="read", op="Neg", device=WORKER, input=["v1"])
    read.attr["T"].type = DT_FLOAT
    return GraphItem(graph)


def test_transfers_inside_branches_stay_unordered_and_the_others_close_up() -> None:
    plan = plan_by_hand({PULLS: ["cond/else/_1/read", "v1", "v2"]})
    result = check_rewrite(RecvPriority(plan), branching())
    ((_, entries),) = annotated_orders(GraphView.of(result.item.graph)).items()
    assert [(entry.rank, entry.key.node) for entry in entries] == [(0, "v1"), (1, "v2")]
    (remark,) = result.remarks
    assert remark.startswith(
        "1 of 3 transfers are inside functions or branches, such as cond/else/_1/read:0;"
    )


def test_a_name_that_only_looks_like_a_branch_is_refused() -> None:
    plan = plan_by_hand({PULLS: ["read/else/_1/x", "v1"]})
    with pytest.raises(PlanError, match=r"it orders the transfer read/else/_1/x:0;"):
        RecvPriority(plan)(branching())


def fetching(*fetches: str) -> GraphItem:
    """A worker reads v1 of a server; only the client, which runs on the worker, reads v2."""
    item = branching()
    del item.graph.node[2]  # the branch
    return replace(item, fetches=fetches)


def planned(item: GraphItem) -> Plan:
    return plan_graph(item, verify(item), "tic")


@pytest.mark.parametrize("passes", ["cut,recv_priority,control_edges", "recv_priority,ack_window{window=1}"])
def test_what_is_only_fetched_stays_unordered(passes: str) -> None:
    item = fetching("v2:0", "read:0")
    plan = planned(item)
    assert {t.key.node for t in plan.transfers} == {"v1", "v2"}
    result = check_rewrite(parse_pipeline(passes, plan), item)
    assert any("only fetched" in remark and "v2:0" in remark for remark in result.remarks)


def test_what_is_not_fetched_here_is_missed() -> None:
    pipeline = parse_pipeline("recv_priority,ack_window{window=1}", planned(fetching("v2:0", "read:0")))
    with pytest.raises(PassError, match=r"nothing on .* reads 'v2:0': .* or for a call that fetches it"):
        pipeline(fetching())


@pytest.mark.parametrize(
    "rest", ["recv_priority{policy=tic},ack_window{window=1}", "cut,recv_priority{policy=tic},control_edges"]
)
def test_a_policy_orders_as_its_plan_does(rest: str) -> None:
    item = random_uncut(random.Random(5))
    result = check_rewrite(parse_pipeline(rest), item)
    by_plan = parse_pipeline(rest.replace("{policy=tic}", ""), planned(item))(item)
    assert annotated_orders(GraphView.of(result.item.graph))
    assert annotated_orders(GraphView.of(result.item.graph)) == annotated_orders(
        GraphView.of(by_plan.item.graph)
    )


def test_the_plan_is_of_the_graph_that_comes_into_the_pass() -> None:
    item = random_uncut(random.Random(5))
    seen: list[GraphItem] = []

    def planner(given: GraphItem, view: GraphView, policy: str) -> Plan:
        seen.append(given)
        return plan_graph(given, view, policy)

    parse_pipeline("cut,recv_priority{policy=reverse}", planner=planner)(item)
    assert [one.graph for one in seen] == [parse_pipeline("cut")(item).item.graph]


def test_an_order_that_is_there_is_kept() -> None:
    item = random_uncut(random.Random(5))
    noted = parse_pipeline("recv_priority{policy=tic}")(item).item
    again = parse_pipeline("recv_priority{policy=reverse}")(noted)
    assert again.item is noted
    assert again.remarks == (
        "the graph bears an order already, and keeps it: strip it first to have it planned anew",
    )
    assert parse_pipeline("strip,recv_priority{policy=reverse}")(noted).changed


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("recv_priority{policy=best}", "there is no policy 'best': choose one of tic, "),
        ("recv_priority{policy=tac}", "the policy 'tac' needs times: give --costs FILE or a capture bundle"),
    ],
)
def test_a_policy_that_cannot_plan_is_refused(text: str, says: str) -> None:
    with pytest.raises(TfwaveError, match=says):
        parse_pipeline(text)(random_uncut(random.Random(5)))


def test_a_plan_and_a_policy_are_one_too_many() -> None:
    with pytest.raises(PassError, match="leave out --plan or the option 'policy'"):
        parse_pipeline("recv_priority{policy=tic}", whole_plan())


def test_without_a_planner_a_policy_notes_nothing() -> None:
    with pytest.raises(PassError, match="has no plan yet: parse_pipeline"):
        RecvPriority(policy="tic")(worker())
