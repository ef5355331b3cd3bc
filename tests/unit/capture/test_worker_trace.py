"""What traces tell of a function's costs, and the plan that follows from them."""

from collections.abc import Mapping

import pytest

from tests.graphs import SERVERS, WORKER, Builder
from tfwave.capture.function import FunctionGraph
from tfwave.capture.plan import plan_function
from tfwave.capture.worker_trace import CostedFunction, TaskTrace, function_costs
from tfwave.cost.table import Costs
from tfwave.errors import MissingCost
from tfwave.graph.names import Channel, task_of
from tfwave.graph.transfer import Transfer, find_transfers
from tfwave.graph.view import GraphView
from tfwave.plan.discipline import Discipline
from tfwave.proto import control_pb2

WORKERS = [WORKER.replace("task:0", f"task:{i}") for i in range(3)]
TASKS = [task_of(worker) for worker in WORKERS]
TASK = TASKS[1]
NAME = "__inference_step_64"
LATENCY, BYTES_PER_SECOND = 1e-3, 1e6
SIZES = {"edge_1_v1": 4, "edge_2_v2": 50_000, "edge_3_v3": 200_000}
SOURCES = {"edge_1_v1": SERVERS[0], "edge_2_v2": SERVERS[0], "edge_3_v3": SERVERS[1]}
OPS = {"first": 2e-3, "second": 3e-3}


@pytest.fixture
def function() -> FunctionGraph:
    """v2 -> first -> second, which takes v1 and v3, too: v2 must come before v1."""
    build = Builder()
    recv1 = build.pair("v1", SERVERS[0], WORKER, send=False)
    build.op(WORKER, "first", [build.pair("v2", SERVERS[0], WORKER, send=False)])
    build.op(WORKER, "second", ["first", recv1, build.pair("v3", SERVERS[1], WORKER, send=False)])
    return function_of(build)


def function_of(build: Builder) -> FunctionGraph:
    view = GraphView.of(build.partitions[WORKER])
    return FunctionGraph(NAME, WORKER, view, find_transfers(view).data)


def traced(
    worker: int,
    *,
    ops: Mapping[str, float] = OPS,
    sizes: Mapping[str, int] = SIZES,
    function: str = NAME,
    tells_bytes: bool = True,
    slower: float = 1.0,
) -> control_pb2.Trace:
    """One step: on each channel the tensors come back to back, at the link's speed."""
    trace = control_pb2.Trace(functions={7: function})
    for node, seconds in ops.items():
        trace.ops.add(function=function, node=node, op="AddN", count=1, min_seconds=seconds)
    for source in SERVERS[:2]:
        trace.channels.add(source_device=source, destination_device=WORKERS[worker])
    now = dict.fromkeys(SERVERS, 5_000_000_000)
    for edge, size in sizes.items():
        source = SOURCES[edge]
        end = now[source] + round(slower * (LATENCY + size / BYTES_PER_SECOND) * 1e9)
        trace.arrivals.add(
            step=7,
            channel=SERVERS.index(source),
            edge=edge,
            bytes=size if tells_bytes else 0,
            requested_nanos=now[source],
            arrived_nanos=end,
        )
        now[source] = end
    return trace


def summed(sizes: Mapping[str, int]) -> control_pb2.Trace:
    """One step that sums what arrives from the first server: bytes by edge, a nanosecond after each other."""
    trace = control_pb2.Trace(functions={1: NAME})
    trace.ops.add(function=NAME, node="sum", op="AddN", count=1, min_seconds=1)
    trace.channels.add(source_device=SERVERS[0], destination_device=WORKER)
    for nanos, (edge, size) in enumerate(sizes.items(), 1):
        trace.arrivals.add(step=1, edge=edge, bytes=size, requested_nanos=0, arrived_nanos=nanos)
    return trace


def costs_of(function: FunctionGraph, *traces: control_pb2.Trace) -> tuple[dict[str, Transfer], Costs]:
    costed = costed_by(function, *traces)
    return {t.edge: t for t in costed.transfers}, costed.network.given


def costed_by(function: FunctionGraph, *traces: control_pb2.Trace) -> CostedFunction:
    """By traces of workers; which of them is all the same."""
    return function_costs(function, [TaskTrace.of(TASK, trace) for trace in traces])


def op_seconds(function: FunctionGraph, costs: Costs, *names: str) -> list[float]:
    return [costs.op_seconds(function.view.names.index(name)) for name in names]


def test_a_trace_is_read_step_by_step() -> None:
    trace = traced(1)
    trace.arrivals.add(step=-3, channel=0, edge="edge_1_v1", bytes=8, requested_nanos=1, arrived_nanos=2)
    read = TaskTrace.of(TASK, trace)
    assert read.task == TASK
    assert read.op_seconds == {NAME: OPS}
    assert [(name, len(records)) for name, records in read.steps] == [("", 1), (NAME, 3)]
    first = read.steps[1][1][0]
    assert (first.edge, first.channel, first.bytes) == ("edge_1_v1", Channel(SERVERS[0], WORKERS[1]), 4)
    assert first.end_seconds - first.start_seconds == pytest.approx(1.004e-3)


def test_transfers_have_the_sizes_that_any_worker_saw(function: FunctionGraph) -> None:
    others = {edge: SIZES[edge] for edge in ("edge_1_v1", "edge_2_v2")}
    transfers, costs = costs_of(function, traced(0, sizes=others), traced(2))
    assert {edge: t.bytes for edge, t in transfers.items()} == SIZES
    for edge, size in SIZES.items():
        expected = LATENCY + size / BYTES_PER_SECOND
        assert costs.transfer_seconds(transfers[edge]) == pytest.approx(expected, rel=0.02)


def test_where_no_trace_tells_bytes_transfers_take_their_fastest_time(function: FunctionGraph) -> None:
    transfers, costs = costs_of(
        function,
        traced(0, tells_bytes=False, slower=3),
        traced(1, tells_bytes=False),
        traced(2, tells_bytes=False, slower=2),
    )
    assert {t.bytes for t in transfers.values()} == {0}
    for edge, size in SIZES.items():
        expected = LATENCY + size / BYTES_PER_SECOND
        assert costs.transfer_seconds(transfers[edge]) == pytest.approx(expected, rel=1e-6)


def test_an_op_costs_its_fastest_run_on_any_worker(function: FunctionGraph) -> None:
    slow = {"first": 9.0, "second": 1e-4}
    _, costs = costs_of(
        function, traced(0, ops=slow), traced(1, function="another", ops={"first": 1e-9}), traced(2)
    )
    assert op_seconds(function, costs, "first", "second") == [2e-3, 1e-4]


def test_what_grappler_folded_away_costs_nothing(function: FunctionGraph) -> None:
    """It is of the same type as ops that ran, but no estimate is made of them."""
    _, costs = costs_of(function, traced(0, ops={"first": 2e-3}))
    assert op_seconds(function, costs, "first", "second") == [2e-3, 0]
    assert costs.source.ops == "measured"


@pytest.mark.parametrize("seen", [[], ["another"], ["", "another"]])
def test_a_function_that_was_not_traced_is_named(function: FunctionGraph, seen: list[str]) -> None:
    traces = [traced(0, function=name) for name in seen]
    with pytest.raises(MissingCost, match=f"no step of {NAME} was traced"):
        costs_of(function, *traces)


def test_steps_of_other_functions_tell_nothing(function: FunctionGraph) -> None:
    other = traced(1, function="another", sizes={"edge_1_v1": 999}, slower=100)
    transfers, costs = costs_of(function, other, traced(0), other)
    alone, expected = costs_of(function, traced(0))
    assert transfers == alone
    for transfer in transfers.values():
        assert costs.transfer_seconds(transfer) == expected.transfer_seconds(transfer)


def test_steps_without_ops_are_not_enough(function: FunctionGraph) -> None:
    with pytest.raises(MissingCost, match="no step"):
        costs_of(function, traced(0, ops={}))
    without_arrivals = traced(0, sizes={})
    with pytest.raises(MissingCost, match="no step"):
        costs_of(function, without_arrivals)


def test_edges_that_tensorflow_numbered_otherwise_are_found_by_source(function: FunctionGraph) -> None:
    trace = traced(1)
    for arrival in trace.arrivals:
        arrival.edge = arrival.edge.replace("edge_", "edge_9")
    transfers, _ = costs_of(function, trace)
    assert {edge: t.bytes for edge, t in transfers.items()} == {
        edge.replace("edge_", "edge_9"): size for edge, size in SIZES.items()
    }


def test_outputs_of_one_node_are_told_apart_by_their_number() -> None:
    build = Builder()
    build.op(SERVERS[0], "many", [build.const(SERVERS[0], "c")], outputs=12)
    recvs = [build.pair(f"many:{port}", SERVERS[0], WORKER) for port in (2, 11, 0)]
    build.op(WORKER, "sum", recvs)
    view = GraphView.of(*build.partitions.values())
    function = FunctionGraph(NAME, WORKER, view, find_transfers(view).data)
    sizes = {f"edge_{number}_many:{port}": port + 1 for number, port in enumerate((11, 0, 2), 1)}
    transfers, _ = costs_of(function, summed(sizes))
    assert {t.key.port: (t.edge, t.bytes) for t in transfers.values()} == {
        0: ("edge_2_many:0", 1),
        2: ("edge_3_many:2", 3),
        11: ("edge_1_many:11", 12),
    }


def test_what_grappler_sends_past_an_identity_is_found_and_named_so() -> None:
    """Of "shared" the function has two transfers: which one came cannot be told."""
    build = Builder()
    recvs: list[str] = []
    for read, *copies in (("read", "copy"), ("shared", "one", "other")):
        build.op(SERVERS[0], read, [build.const(SERVERS[0], f"c_{read}")])
        for copy in copies:
            build.identity(SERVERS[0], f"{copy}_of", read)
            build.identity(SERVERS[0], copy, f"{copy}_of")
            recvs.append(build.pair(copy, SERVERS[0], WORKER))
    build.op(WORKER, "sum", recvs)
    view = GraphView.of(*build.partitions.values())
    function = FunctionGraph(NAME, WORKER, view, find_transfers(view).data)
    transfers, _ = costs_of(function, summed({"edge_5_read": 100, "edge_6_shared": 200}))
    assert {edge: t.bytes for edge, t in transfers.items()} == {"edge_5_read": 100}


def test_two_outputs_of_one_node_are_not_mistaken_for_each_other() -> None:
    build = Builder()
    recvs = [build.pair(tensor, SERVERS[0], WORKER, send=False) for tensor in ("v", "v", "w")]
    build.op(WORKER, "sum", recvs)
    function = function_of(build)
    transfers, _ = costs_of(function, summed({"edge_1_v": 100, "edge_77_v": 200, "edge_3_w": 300}))
    assert {edge: t.bytes for edge, t in transfers.items()} == {"edge_1_v": 100, "edge_3_w": 300}


def test_the_plan_orders_the_same_for_each_worker(function: FunctionGraph) -> None:
    plan = plan_function(costed_by(function, traced(1)), "tac", TASKS)
    channels = [order.channel for order in plan.orders]
    assert channels == sorted(Channel(s, w) for s in SERVERS[:2] for w in WORKERS)
    for order in plan.orders:
        assert {t.key.channel for t in order.transfers} == {order.channel}
        expected = ["edge_2_v2", "edge_1_v1"] if order.channel.source == SERVERS[0] else ["edge_3_v3"]
        assert [t.edge for t in order.transfers] == expected
        assert {t.edge: t.bytes for t in order.transfers} == {edge: SIZES[edge] for edge in expected}
    assert plan.policy == "tac"
    assert plan.costs.ops == "measured"


@pytest.fixture
def training() -> FunctionGraph:
    """v1 and v2 are pulled, a gradient of 1 MB is pushed, and a rate goes from one server to the other."""
    build = Builder()
    build.op(WORKER, "first", [build.pair("v1", SERVERS[0], WORKER)])
    build.op(WORKER, "second", ["first", build.pair("v2", SERVERS[0], WORKER)])
    build.const(SERVERS[0], "v1")
    build.const(SERVERS[0], "v2")
    build.const(SERVERS[1], "rate")
    rate = build.pair("rate", SERVERS[1], SERVERS[0])
    build.op(SERVERS[0], "apply", [build.pair("second", WORKER, SERVERS[0]), rate])
    build.op(SERVERS[0], "again", ["apply", rate])
    view = GraphView.of(*build.partitions.values())
    return FunctionGraph(NAME, WORKER, view, find_transfers(view).data)


PULLED = {edge: SIZES[edge] for edge in ("edge_1_v1", "edge_2_v2")}
GRADIENT = 1_000_000


def traced_on_server() -> TaskTrace:
    """The gradient was asked for at the step's begin, long before it was there."""
    trace = control_pb2.Trace(functions={7: NAME})
    trace.channels.add(source_device=WORKERS[2], destination_device=SERVERS[0])
    trace.arrivals.add(
        step=7, edge="edge_4_second", bytes=GRADIENT, requested_nanos=0, arrived_nanos=60_000_000_000
    )
    trace.ops.add(function=NAME, node="apply", op="AddN", count=1, min_seconds=5e-3)
    return TaskTrace.of("/job:ps/replica:0/task:0", trace)


def test_a_function_knows_both_directions(training: FunctionGraph) -> None:
    assert [t.key.node for t in training.pulls] == ["v1", "v2"]
    assert [t.key.node for t in training.pushes] == ["second"]
    assert {key.node for key in training.free} == {"v1", "v2", "rate"}
    assert not training.overlaps


def test_pushes_take_the_link_of_pulls(training: FunctionGraph) -> None:
    workers = [TaskTrace.of(TASK, traced(0, sizes=PULLED))]
    costed = function_costs(training, [*workers, traced_on_server()])
    (push,) = (t for t in costed.transfers if t.key.node == "second")
    assert push.bytes == GRADIENT
    assert costed.network.given.transfer_seconds(push) == pytest.approx(
        LATENCY + GRADIENT / BYTES_PER_SECOND, rel=0.02
    )


def test_ops_of_servers_are_measured_where_they_were_traced(training: FunctionGraph) -> None:
    workers = [TaskTrace.of(TASK, traced(0, sizes=PULLED))]
    measured = function_costs(training, [*workers, traced_on_server()]).network.given
    assert op_seconds(training, measured, "apply", "again") == [5e-3, 0]
    estimated = function_costs(training, workers).network.given
    assert op_seconds(training, estimated, "apply", "again") == [2.5e-3, 2.5e-3]
    assert estimated.source.ops == "estimated"


def test_a_single_step_orders_its_pulls(training: FunctionGraph) -> None:
    plan = plan_function(costed_by(training, traced(0, sizes=PULLED)), "tac", TASKS[:1])
    assert [order.channel for order in plan.orders] == [Channel(SERVERS[0], WORKER)]
    assert [t.edge for t in plan.transfers] == ["edge_1_v1", "edge_2_v2"]


def two_steps() -> FunctionGraph:
    """Two steps on one variable: pulled, its gradient pushed and applied, pulled again.

    The server gets a rate from another one, and both get what the worker knows at once.
    """
    build = Builder()
    build.const(SERVERS[0], "v")
    build.const(SERVERS[1], "rate")
    build.const(WORKER, "rows")
    build.op(SERVERS[1], "looked_up", [build.pair("rows", WORKER, SERVERS[1])])
    build.op(WORKER, "first", [build.pair("v", SERVERS[0], WORKER)])
    others = [build.pair("rate", SERVERS[1], SERVERS[0]), build.pair("rows", WORKER, SERVERS[0])]
    build.op(SERVERS[0], "apply", [build.pair("first", WORKER, SERVERS[0]), *others])
    build.op(WORKER, "second", [build.pair("apply", SERVERS[0], WORKER)])
    build.op(SERVERS[0], "last", [build.pair("second", WORKER, SERVERS[0])])
    view = GraphView.of(*build.partitions.values())
    return FunctionGraph(NAME, WORKER, view, find_transfers(view).data)


def test_steps_overlap_where_a_pull_waits_for_another() -> None:
    function = two_steps()
    assert function.overlaps
    assert {key.node for key in function.free} == {"v", "rate", "rows"}
    assert [t.key.node for t in function.pulls] == ["apply", "v"]
    assert [t.key.node for t in function.pushes] == ["first", "rows", "rows", "second"]


def test_a_step_that_reads_its_counter_again_does_not_overlap_with_itself() -> None:
    build = Builder()
    for name in ("counter", "v1", "v2"):
        build.const(SERVERS[0], name)
    pulls = [build.pair(name, SERVERS[0], WORKER) for name in ("counter", "v1", "v2")]
    build.op(WORKER, "step", pulls)
    build.op(SERVERS[0], "counted", [build.pair("step", WORKER, SERVERS[0])])
    build.op(WORKER, "after", [build.pair("counted", SERVERS[0], WORKER)])
    view = GraphView.of(*build.partitions.values())
    assert not FunctionGraph(NAME, WORKER, view, find_transfers(view).data).overlaps


def test_what_was_asked_for_too_early_tells_no_time() -> None:
    """The second step's pull is asked for at the begin, too, and arrives when the first step is done."""
    function = two_steps()
    edges = {t.key.node: t.edge for t in function.transfers}
    trace = control_pb2.Trace(functions={7: NAME})
    trace.channels.add(source_device=SERVERS[0], destination_device=WORKER)
    trace.ops.add(function=NAME, node="first", op="AddN", count=1, min_seconds=1e-3)
    for edge, arrived in ((edges["v"], 1_000_000), (edges["apply"], 90_000_000_000)):
        trace.arrivals.add(step=7, edge=edge, bytes=1000, requested_nanos=0, arrived_nanos=arrived)
    costed = costed_by(function, trace)
    assert [costed.network.given.transfer_seconds(t) for t in costed.transfers if t.bytes] == [
        pytest.approx(1e-3),
        pytest.approx(1e-3),
    ]


def test_overlapped_steps_are_planned_in_both_directions_for_each_worker() -> None:
    function = two_steps()
    edges = {t.key.node: t.edge for t in function.transfers}
    told = control_pb2.Trace(functions={7: NAME})
    told.channels.add(source_device=SERVERS[0], destination_device=WORKER)
    told.ops.add(function=NAME, node="first", op="AddN", count=1, min_seconds=1e-3)
    for node in ("v", "apply"):
        told.arrivals.add(step=7, edge=edges[node], bytes=1000, requested_nanos=0, arrived_nanos=1_000_000)
    plan = plan_function(costed_by(function, told), "tac", TASKS[:2])
    both = [Channel(SERVERS[0], w) for w in WORKERS[:2]] + [Channel(w, SERVERS[0]) for w in WORKERS[:2]]
    assert [order.channel for order in plan.orders] == sorted(both)
    assert all(t.key.channel == order.channel for order in plan.orders for t in order.transfers)
    assert {t.key.node for t in plan.transfers} == {"v", "apply", "first", "second"}
    assert {order.discipline for order in plan.orders} == {Discipline.PRIORITY}
