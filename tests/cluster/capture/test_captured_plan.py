"""A plan made from a capture, which shows the graph after Grappler, fits the graph as it was built."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from tests.cluster import model
from tests.cluster.cluster import Cluster
from tfwave.bundle.bundle import Bundle
from tfwave.capture.session import capture_run
from tfwave.cost.network import Network
from tfwave.cost.uniform import uniform_costs
from tfwave.graph.item import GraphItem
from tfwave.graph.names import TransferKey
from tfwave.graph.partition.cut import cut
from tfwave.graph.transfer import find_transfers
from tfwave.graph.view import GraphView
from tfwave.passes.text import parse_pipeline
from tfwave.plan.plan import Plan
from tfwave.planner import PlanRequest, make_plan
from tfwave.planner.captured import plan_bundle
from tfwave.proto.tensorflow_pb2 import GraphDef

pytestmark = pytest.mark.tensorflow

v1 = tf.compat.v1
SERVER, WORKER = model.device("ps", 0), model.device("worker", 0)
FILTERS = v1.ConfigProto(device_filters=["/job:ps", "/job:worker/task:0"], operation_timeout_in_ms=60_000)


def item_of(graph: Any, fetches: Sequence[Any]) -> GraphItem:
    definition = GraphDef.FromString(graph.as_graph_def().SerializeToString())
    return GraphItem(definition, fetches=tuple(fetch.name for fetch in fetches))


def keys(*partitions: GraphDef) -> set[TransferKey]:
    return {transfer.key for transfer in find_transfers(GraphView.of(*partitions)).data}


def rewritten(item: GraphItem, plan: Plan) -> GraphItem:
    return parse_pipeline("recv_priority,ack_window{window=2}", plan)(item).item


def gates(planned: set[TransferKey]) -> set[str]:
    return {f"{key.node}/ack_gate_{key.port}" for key in planned}


def read(item: GraphItem) -> set[str]:
    """What the worker's sines read."""
    return {node.input[0] for node in item.graph.node if node.op == "Sin"}


def offline_plan(item: GraphItem, policy: str) -> Plan:
    view = GraphView.of(*cut(item))
    return make_plan(view, find_transfers(view).data, Network(uniform_costs(view)), PlanRequest(policy))


def run(cluster: Cluster, item: GraphItem, out: Path) -> tuple[list[bytes], Bundle]:
    """What the fetches give, and a capture of it; the variables are there already."""
    with tf.Graph().as_default():
        definition = v1.GraphDef.FromString(item.graph.SerializeToString())
        fetches = tf.graph_util.import_graph_def(definition, name="", return_elements=list(item.fetches))
        with v1.Session(cluster.target(0), config=FILTERS) as session:
            bundle = capture_run(session, fetches, out=out, steps=2, warmup=1)
            return [value.tobytes() for value in session.run(fetches)], bundle


def test_a_training_step_has_the_keys_of_its_capture(cluster: Cluster, tmp_path: Path) -> None:
    """The pulls from two servers, and the pushes to them."""
    built = model.build(cluster, 0, [0, 1], "captured")
    fetches = [built.loss, built.train]
    bundle = capture_run(built.session, fetches, out=tmp_path / "bundle", steps=2, warmup=1)
    item = item_of(built.session.graph, fetches)
    assert keys(*bundle.graphs) == keys(*cut(item))
    assert len(keys(*bundle.graphs)) == 2 * model.VARIABLES

    plan = plan_bundle(bundle)
    crossing = {key.node for key in keys(*cut(rewritten(item, plan)))}
    assert {f"{t.key.node}/ack_hold_0" for t in plan.transfers} < crossing
    assert not {t.key.node for t in plan.transfers} & crossing


def aliases(cluster: Cluster) -> GraphItem:
    """A tensor that crosses as it is, one behind an Identity, one both ways, and three outputs of one node."""
    with tf.Graph().as_default() as graph:
        with tf.device(SERVER):
            starts = [tf.random.stateless_normal([300], [i, 1]) for i in range(4)]
            variables = [v1.Variable(s, name=f"alias_v{i}", use_resource=True) for i, s in enumerate(starts)]
            plain, behind, both, parts = (
                variables[0].value(),
                variables[1].read_value(),
                variables[2].value(),
                tf.split(variables[3].value(), 3, name="parts"),
            )
            crossing = [plain, behind, both, tf.identity(both), *parts]
        with tf.device(WORKER):
            sums = [tf.reduce_sum(tf.sin(tensor)) for tensor in crossing]
        with v1.Session(cluster.target(0), config=FILTERS) as session:
            session.run(v1.global_variables_initializer())
    return item_of(graph, sums)


def test_grappler_takes_aliases_out_and_the_plan_fits_with_them(cluster: Cluster, tmp_path: Path) -> None:
    item = aliases(cluster)
    stock, bundle = run(cluster, item, tmp_path / "stock")
    built, captured = keys(*cut(item)), keys(*bundle.graphs)
    ops = {node.name: node.op for node in item.graph.node}
    assert sorted(ops[key.node] for key in built - captured) == ["Identity", "Identity"]
    assert [ops[key.node] for key in captured - built] == ["ReadVariableOp"]
    assert len(captured) == 6

    plan = plan_bundle(bundle)
    gated = rewritten(item, plan)
    outputs, after = run(cluster, gated, tmp_path / "gated")
    holds = {f"{key.node}/ack_hold_{key.port}" for key in captured}
    assert {key.node for key in keys(*after.graphs)} == holds
    assert keys(*after.graphs) == keys(*cut(gated))
    assert outputs == stock
    assert rewritten(gated, plan) == gated

    assert read(gated) == gates(captured)
    for policy in ("fifo", "reverse"):
        assert read(rewritten(item, offline_plan(item, policy))) == gates(built)
