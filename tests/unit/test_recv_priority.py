"""Which plans recv_priority takes."""

import pytest

from grappler_passes.recv_priority import RecvPriority
from tests.bundles import small_graphs
from tests.graphs import SERVERS, WORKER
from tests.plans import plan_by_hand
from tests.rewrites import check_rewrite
from tfwave.errors import PlanError
from tfwave.graph.item import GraphItem
from tfwave.graph.names import Channel
from tfwave.graph.view import GraphView
from tfwave.plan.annotation import annotated_orders
from tfwave.plan.plan import Plan
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
