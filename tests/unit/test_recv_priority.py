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
