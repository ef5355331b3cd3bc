"""A worker with several devices: what arrives there has one order; what they copy from each other has none."""

from dataclasses import replace

import pytest

from tests.graphs import SERVERS, WORKER, Builder, by_name
from tests.unit.coordinated import Function
from tfwave.capture.function import FunctionGraph, cut_function
from tfwave.capture.plan import plan_function
from tfwave.capture.worker_trace import TaskTrace, function_costs
from tfwave.cost.network import Network
from tfwave.cost.table import Costs
from tfwave.errors import GraphError, MissingCost
from tfwave.graph.names import Channel, home_of
from tfwave.graph.transfer import Transfer, find_transfers
from tfwave.graph.view import GraphView
from tfwave.order.bounds import find_bounds
from tfwave.plan.plan import Plan
from tfwave.planner.overlap import step_load
from tfwave.planner.plan import PlanRequest, make_plan
from tfwave.proto import control_pb2
from tfwave.runtime.job_devices import JobDevices

SERVER = SERVERS[0]
SECOND = WORKER.replace("CPU:0", "CPU:1")
GPU = WORKER.replace("CPU:0", "GPU:0")
LATE = {"first": 2.0, "second": 1.0}
"""What the second device computes, in seconds: `second` waits for `first`."""


def copied(device: str) -> Builder:
    """v and w are pulled to the worker's CPU and copied to a device, whose first op takes w."""
    build = Builder()
    for name in ("v", "w"):
        build.const(SERVER, name)
    v, w = (build.pair(build.pair(name, SERVER, WORKER), WORKER, device) for name in ("v", "w"))
    build.op(device, "first", [w])
    build.op(device, "second", ["first", v])
    return build


def pulled() -> Builder:
    """v and w go to the second device, x to the first, for whose op those of the second wait; w is taken first."""
    build = Builder()
    for name in ("v", "w", "x"):
        build.const(SERVER, name)
    x = build.pair("x", SERVER, WORKER)
    v, w = (build.pair(name, SERVER, SECOND) for name in ("v", "w"))
    build.op(WORKER, "begin", [x])
    build.op(SECOND, "first", [build.pair("begin", WORKER, SECOND), w])
    build.op(SECOND, "second", ["first", v])
    return build


def job(build: Builder, ops: dict[str, float]) -> tuple[GraphView, list[Transfer], Costs]:
    """Each transfer takes a second."""
    view = GraphView.of(*build.partitions.values())
    transfers = [replace(t, bytes=10) for t in find_transfers(view).data]
    return view, transfers, by_name(view, ops, {t.node: 1.0 for t in transfers})


def planned(build: Builder, ops: dict[str, float], policy: str = "tac", device: str | None = None) -> Plan:
    view, transfers, costs = job(build, ops)
    return make_plan(view, transfers, Network(costs), PlanRequest(policy, device=device))


def order_of(plan: Plan) -> dict[Channel, list[str]]:
    return {order.channel: [t.key.node for t in order.transfers] for order in plan.orders}


@pytest.mark.parametrize("policy", ["tac", "search", "exact"])
@pytest.mark.parametrize("device", [SECOND, GPU])
def test_what_is_copied_on_is_ordered_by_what_the_other_device_computes(policy: str, device: str) -> None:
    plan = planned(copied(device), LATE, policy)
    assert order_of(plan) == {Channel(SERVER, WORKER): ["w", "v"]}
    assert plan.predicted.makespan_seconds == 4.0  # w, then first beside v, then second
    assert (plan.predicted.upper_seconds, plan.predicted.lower_seconds) == (5.0, 3.0)


def test_pulls_to_two_devices_have_one_order_of_which_each_channel_keeps_its_part() -> None:
    plan = planned(pulled(), {"begin": 1.0, **LATE})
    assert order_of(plan) == {Channel(SERVER, WORKER): ["x"], Channel(SERVER, SECOND): ["w", "v"]}
    ranks = {t.key.node: t.priority for order in plan.orders for t in order.transfers}
    assert ranks == {"x": 0.0, "w": 1.0, "v": 2.0}
    assert (
        plan.predicted.makespan_seconds == 5.0
    )  # x and w at once, begin, first, second: devices wait in turn


def test_a_device_can_be_asked_for() -> None:
    """Or a task, with all of its devices."""
    ops = {"begin": 1.0, **LATE}
    part = {Channel(SERVER, SECOND): ["w", "v"]}
    assert order_of(planned(pulled(), ops, device=SECOND)) == part
    whole = planned(pulled(), ops, device=home_of(SECOND))
    assert order_of(whole) == part | {Channel(SERVER, WORKER): ["x"]}


def test_what_the_second_device_computes_must_be_known() -> None:
    with pytest.raises(MissingCost, match="'second'"):
        planned(copied(GPU), {"first": 2.0})


def test_bounds_count_each_device_of_the_task() -> None:
    view, transfers, costs = job(pulled(), {"begin": 5.0, **LATE})
    bounds = find_bounds(view, transfers, costs)
    assert (bounds.upper_seconds, bounds.lower_seconds) == (11.0, 5.0)


def test_the_load_of_a_worker_is_that_of_all_its_devices() -> None:
    view, transfers, costs = job(pulled(), {"begin": 1.0, **LATE})
    load = step_load(view, home_of(WORKER), transfers, Network(costs))
    assert (load.compute_seconds, len(load.pulls), len(load.pushes)) == (4.0, 3, 0)


def test_a_function_on_two_devices_is_traced_and_planned_for_every_worker() -> None:
    """What another worker saw of its second device tells of this one's."""
    tasks = [f"/job:worker/replica:0/task:{i}" for i in range(2)]
    view = GraphView.of(*pulled().partitions.values())
    function = FunctionGraph("f", WORKER, view, find_transfers(view).data)
    assert {t.key.node for t in function.pulls} == {"v", "w", "x"}
    trace = control_pb2.Trace(functions={7: "f"})
    for name, seconds in {"begin": 1.0, **LATE}.items():
        trace.ops.add(function="f", node=name, op="AddN", count=1, min_seconds=seconds)
    for device in ("CPU:0", "CPU:1"):
        trace.channels.add(source_device=SERVER, destination_device=f"{tasks[1]}/device:{device}")
    for end, t in enumerate(function.pulls, 1):
        channel = int(t.channel.destination == SECOND)
        trace.arrivals.add(step=7, channel=channel, edge=t.edge, bytes=100, arrived_nanos=end * 10**9)
    costed = function_costs(function, [TaskTrace.of(tasks[1], trace)])
    assert [t.bytes for t in costed.transfers] == [100, 100, 100]
    plan = plan_function(costed, "tac", tasks)
    parts = {"CPU:0": ["x"], "CPU:1": ["w", "v"]}
    assert order_of(plan) == {
        Channel(SERVER, f"{task}/device:{device}"): part for task in tasks for device, part in parts.items()
    }


def test_a_function_runs_on_the_first_gpu_of_a_worker_that_has_one() -> None:
    tasks = [home_of(WORKER)]
    assert JobDevices((SERVER, WORKER, SECOND), tasks).runner == WORKER
    assert JobDevices((SERVER, WORKER, GPU), tasks).runner == GPU
    assert JobDevices((SERVER.replace("CPU", "GPU"), WORKER), tasks).runner == WORKER


def test_a_function_on_a_gpu_is_cut_where_its_devices_are_certain() -> None:
    function = Function("f")
    on_gpu = function.graph.as_graph_def()
    for node in on_gpu.node:
        node.device = node.device.replace(WORKER, GPU)
    function.graph.as_graph_def = lambda: on_gpu
    job = JobDevices((SERVER, WORKER, GPU), [home_of(WORKER)], soft=False)
    assert {t.channel for t in cut_function(function, job).pulls} == {Channel(SERVER, GPU)}
    with pytest.raises(GraphError, match=r"'sum' \(AddN\) .*GPU:0"):
        cut_function(function, replace(job, soft=True))
