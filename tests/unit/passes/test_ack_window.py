"""What ack_window writes into a small graph."""

from collections.abc import Sequence

from grappler_passes.ack_window import AckWindow
from grappler_passes.recv_priority import RecvPriority
from tests.graphs import SERVERS, WORKER, Builder
from tests.plans import plan_by_hand
from tests.rewrites import check_rewrite
from tfwave.graph.item import GraphItem
from tfwave.graph.names import Channel
from tfwave.passes.pipeline import Pipeline
from tfwave.passes.text import parse_pipeline
from tfwave.proto.tensorflow_pb2 import DT_BOOL, DT_FLOAT, GraphDef, NodeDef

SERVER = SERVERS[0]


def pulled() -> GraphDef:
    """Four variables that the worker adds up, and a sum of two of them."""
    build = Builder()
    for name in ("a", "b", "c", "d"):
        build.const(SERVER, name)
    build.op(WORKER, "sum", ["a", "b", "c", "d"])
    build.op(WORKER, "part", ["a", "c"])
    graph = GraphDef()
    for partition in build.partitions.values():
        graph.node.extend(partition.node)
    return graph


def gated(item: GraphItem, order: Sequence[str], window: int) -> dict[str, NodeDef]:
    """The nodes of the graph after the pass, by name."""
    plan = plan_by_hand({Channel(SERVER, WORKER): order})
    result = Pipeline((RecvPriority(plan), AckWindow(window)))(item)
    return {node.name: node for node in result.item.graph.node}


def test_holds_wait_for_the_gate_a_window_before_and_for_the_last_hold() -> None:
    nodes = gated(GraphItem(pulled()), ("b", "a", "d", "c"), 2)
    assert list(nodes["b/ack_hold_0"].input) == ["b"]
    assert list(nodes["a/ack_hold_0"].input) == ["a", "^b/ack_hold_0"]
    assert list(nodes["d/ack_hold_0"].input) == ["d", "^b/ack_gate_0", "^a/ack_hold_0"]
    assert list(nodes["c/ack_hold_0"].input) == ["c", "^a/ack_gate_0", "^d/ack_hold_0"]


def test_with_a_window_of_one_each_waits_for_the_arrival_of_the_last() -> None:
    nodes = gated(GraphItem(pulled()), ("a", "b", "c", "d"), 1)
    assert list(nodes["b/ack_hold_0"].input) == ["b", "^a/ack_gate_0"]
    assert list(nodes["d/ack_hold_0"].input) == ["d", "^c/ack_gate_0"]


def test_a_worker_on_a_gpu_that_the_graph_names() -> None:
    item, gpu = GraphItem(pulled()), WORKER.replace("CPU", "GPU")
    for node in item.graph.node:
        node.device = node.device.replace(WORKER, gpu)
    done = check_rewrite(parse_pipeline("recv_priority{policy=tic},ack_window{window=1}"), item)
    nodes = {node.name: node for node in done.item.graph.node}
    assert (nodes["a/ack_hold_0"].device, nodes["a/ack_gate_0"].device) == (SERVER, gpu)
    assert list(nodes["part"].input) == ["a/ack_gate_0", "c/ack_gate_0"]


def test_holds_are_at_the_source_and_gates_at_the_destination() -> None:
    nodes = gated(GraphItem(pulled()), ("a", "b", "c", "d"), 3)
    for name in ("a", "b", "c", "d"):
        hold, gate = nodes[f"{name}/ack_hold_0"], nodes[f"{name}/ack_gate_0"]
        assert (hold.device, gate.device) == (SERVER, WORKER)
        assert list(gate.input) == [hold.name]
        assert hold.attr["_grappler_do_not_remove"].b
        assert gate.attr["_grappler_do_not_remove"].b
    assert list(nodes["sum"].input) == [f"{name}/ack_gate_0" for name in ("a", "b", "c", "d")]


def test_other_outputs_and_other_devices_are_read_as_before() -> None:
    graph = pulled()
    build = Builder()
    build.op(SERVER, "two", ["a"], outputs=2)
    build.op(WORKER, "reads", ["two", "two:1"])
    build.op(SERVER, "beside", ["two"])
    for partition in build.partitions.values():
        graph.node.extend(partition.node)
    nodes = gated(GraphItem(graph), ("two",), 1)
    assert list(nodes["reads"].input) == ["two/ack_gate_0", "two:1"]
    assert list(nodes["beside"].input) == ["two"]


def test_only_what_the_fetches_need_is_ordered() -> None:
    nodes = gated(GraphItem(pulled(), fetches=("part:0",)), ("a", "b", "c", "d"), 1)
    assert "b/ack_hold_0" not in nodes
    assert list(nodes["c/ack_hold_0"].input) == ["c", "^a/ack_gate_0"]


def test_what_a_function_must_run_is_ordered_too() -> None:
    """As Grappler shows it: only what it returns is fetched."""
    graph = pulled()
    graph.node.add(name="returned", op="_Retval", device=WORKER, input=["part"]).attr["T"].type = DT_FLOAT
    run = frozenset(["returned", "sum"])
    nodes = gated(GraphItem(graph, fetches=("returned",), preserve=run), ("a", "b", "c", "d"), 1)
    assert list(nodes["c/ack_hold_0"].input) == ["c", "^b/ack_gate_0"]


def test_what_does_not_run_exactly_once_stays_unordered() -> None:
    graph = pulled()
    choice = graph.node.add(name="choice", op="Const", device=SERVER)
    choice.attr["dtype"].type = DT_BOOL
    switch = graph.node.add(name="switch", op="Switch", device=SERVER, input=["d", "choice"])
    taken = graph.node.add(name="taken", op="Neg", device=WORKER, input=["switch"])
    switch.attr["T"].type = taken.attr["T"].type = DT_FLOAT
    plan = plan_by_hand({Channel(SERVER, WORKER): ["a", "switch", "b"]})
    result = Pipeline((RecvPriority(plan), AckWindow(1)))(GraphItem(graph))
    nodes = {node.name: node for node in result.item.graph.node}
    assert list(nodes["b/ack_hold_0"].input) == ["b", "^a/ack_gate_0"]
    assert list(nodes["taken"].input) == ["switch"]
    assert result.remarks == (
        f"1 transfers stay unordered, such as switch:0;{SERVER};{WORKER}: in a branch or a loop",
    )


def test_what_the_fetches_do_not_need_is_left_out() -> None:
    nodes = gated(GraphItem(pulled(), fetches=("part:0",)), ("a", "b", "c", "d"), 1)
    assert list(nodes["c/ack_hold_0"].input) == ["c", "^a/ack_gate_0"]
    assert "b/ack_hold_0" not in nodes
