"""All servers of a job at once: two parameter servers and two workers, with hooks that need no TensorFlow."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest

from tests.controlled import FakeHook
from tests.plans import plan_by_hand
from tfwave.capture.worker_trace import TaskTrace
from tfwave.distribute import servers as module
from tfwave.distribute.servers import Servers, function_of
from tfwave.errors import EnforcerError
from tfwave.graph.names import Channel
from tfwave.plan.plan import Plan
from tfwave.proto import control_pb2
from tfwave.report.conformance import HandOff
from tfwave.runtime.control.service import ControlServer, serve

PS = [f"/job:ps/replica:0/task:{i}" for i in range(2)]
WORKERS = [f"/job:worker/replica:0/task:{i}" for i in range(2)]
PULLS = {
    (p, w): Channel(f"{PS[p]}/device:CPU:0", f"{WORKERS[w]}/device:CPU:0") for p in (0, 1) for w in (0, 1)
}
PLANS = {
    "train": plan_by_hand(dict.fromkeys(PULLS.values(), ("edge_1_x", "edge_2_y"))),
    "evaluate": plan_by_hand({PULLS[1, 0]: ("edge_3_z",)}),
}
PUSH = Channel(PULLS[0, 1].destination, PULLS[0, 1].source)
BOTH_WAYS = {"train": plan_by_hand({PULLS[0, 1]: ("edge_1_x", "edge_2_y"), PUSH: ("edge_9_z",)})}
LONG = 5.0


class Hook(FakeHook):
    """Hands off two transfers of "train" each time that it is read."""

    def __init__(self, enforcer: str) -> None:
        super().__init__()
        self.enforcer = enforcer
        self.cursors: list[int] = []

    def status(self) -> control_pb2.Status:
        return control_pb2.Status(enforcer=self.enforcer, installed=self.plan is not None)

    def hand_offs(self, cursor: int = 0) -> control_pb2.HandOffs:
        self.cursors.append(cursor)
        answer = control_pb2.HandOffs(next_cursor=cursor + 2)
        answer.channels.add(source_device="a", destination_device="b", function="evaluate")
        answer.channels.add(source_device="a", destination_device="b", function="train")
        answer.hand_offs.add(step=cursor, channel=1, rank=4, reason=control_pb2.LATE)
        answer.hand_offs.add(step=cursor, channel=0, rank=3)
        return answer


class Tracer:
    """Traces one step of a function that is named after it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.on = False

    def start(self) -> None:
        if self.on:
            raise EnforcerError("it is traced already")
        self.on = True

    def stop(self) -> control_pb2.Trace:
        self.on = False
        trace = control_pb2.Trace(functions={1: self.name})
        trace.ops.add(function=self.name, node="a", min_seconds=1)
        return trace


@dataclass
class Cluster:
    hooks: dict[str, Hook]
    tracers: dict[str, Tracer]
    services: dict[str, ControlServer]
    servers: Servers

    def stop(self, task: str) -> None:
        self.services.pop(task).stop()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    hooks = {task: Hook("proxy" if task == PS[1] else "hook") for task in PS + WORKERS}
    tracers = {task: Tracer(task) for task in PS + WORKERS}
    services = {task: serve(hook) for task, hook in hooks.items()}
    for task, service in services.items():
        service.trace_with(tracers[task])
    addresses = {task: service.address for task, service in services.items()}
    made = Cluster(hooks, tracers, services, Servers(addresses))
    yield made
    for service in made.services.values():
        service.stop()


def sent(plan: Plan | Mapping[str, Plan] | None) -> dict[str, list[Channel]]:
    """The channels that a hook was told to order, by function."""
    assert isinstance(plan, Mapping)
    return {function: [order.channel for order in of.orders] for function, of in plan.items()}


def test_only_parameter_servers_enforce(cluster: Cluster) -> None:
    assert cluster.servers.enforcers() == {PS[0]: "hook", PS[1]: "proxy"}


def test_workers_are_told_of_hooks_only(cluster: Cluster) -> None:
    """A proxy's server runs a TensorFlow that knows no marker; a worker marks what it sends itself, too."""
    cluster.hooks[WORKERS[0]].enforcer = "proxy"
    cluster.servers.announce([1])
    assert cluster.hooks[WORKERS[1]].settings == {"hooked_tasks": (PS[0], WORKERS[1])}
    assert cluster.hooks[WORKERS[0]].settings == {}
    cluster.servers.announce()
    assert cluster.hooks[WORKERS[0]].settings == {"hooked_tasks": (PS[0],)}
    assert cluster.hooks[WORKERS[1]].settings == {"hooked_tasks": (PS[0], WORKERS[1])}
    assert not any(cluster.hooks[task].settings for task in PS)


def test_each_server_gets_the_orders_of_what_it_sends(cluster: Cluster) -> None:
    cluster.servers.install(PLANS)
    assert sent(cluster.hooks[PS[0]].plan) == {"train": [PULLS[0, 0], PULLS[0, 1]], "evaluate": []}
    assert sent(cluster.hooks[PS[1]].plan) == {
        "train": [PULLS[1, 0], PULLS[1, 1]],
        "evaluate": [PULLS[1, 0]],
    }
    assert all(cluster.hooks[task].plan is None for task in WORKERS)
    assert cluster.servers.forgetful() == []


def test_a_worker_gets_the_orders_of_what_it_sends(cluster: Cluster) -> None:
    cluster.servers.install(BOTH_WAYS)
    assert sent(cluster.hooks[PS[0]].plan) == {"train": [PULLS[0, 1]]}
    assert sent(cluster.hooks[WORKERS[1]].plan) == {"train": [PUSH]}
    assert cluster.hooks[WORKERS[0]].plan is None
    cluster.servers.install(PLANS)
    assert cluster.hooks[WORKERS[1]].plan is None


def test_a_worker_that_is_away_holds_nobody_up(cluster: Cluster) -> None:
    cluster.stop(WORKERS[1])
    cluster.servers.install(BOTH_WAYS)
    assert cluster.hooks[PS[0]].plan is not None
    assert cluster.servers.forgetful() == []
    assert len(cluster.servers.hand_offs()) == 4
    cluster.servers.install({})
    assert cluster.hooks[PS[0]].plan is None


def test_no_plans_are_no_plans(cluster: Cluster) -> None:
    cluster.servers.install(BOTH_WAYS)
    cluster.servers.install({})
    assert all(cluster.hooks[task].plan is None for task in PS + WORKERS)
    assert cluster.servers.forgetful() == PS


def test_a_restarted_task_is_found(cluster: Cluster) -> None:
    cluster.servers.install(BOTH_WAYS)
    cluster.hooks[PS[1]].remove()
    cluster.hooks[WORKERS[1]].remove()
    assert cluster.servers.forgetful() == [PS[1], WORKERS[1]]


def test_plans_are_installed_on_a_lease(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEASE_SECONDS", 0.1)
    cluster.servers.install(PLANS)
    end = time.monotonic() + LONG
    while any(cluster.hooks[task].plan for task in PS):
        assert time.monotonic() < end
        time.sleep(0.01)


def test_the_others_are_told_if_one_does_not_answer(cluster: Cluster) -> None:
    cluster.stop(PS[0])
    with pytest.raises(EnforcerError, match=f"^{PS[0]}: no control service answers"):
        cluster.servers.install(PLANS)
    assert cluster.hooks[PS[1]].plan is not None
    with pytest.raises(EnforcerError, match=f"^{PS[0]}: "):
        cluster.servers.install({})
    assert cluster.hooks[PS[1]].plan is None


def test_all_tasks_trace(cluster: Cluster) -> None:
    cluster.servers.start_trace()
    assert all(cluster.tracers[task].on for task in PS + WORKERS)
    assert cluster.servers.stop_trace() == [TaskTrace(task, {task: {"a": 1}}, ()) for task in PS + WORKERS]
    assert not any(tracer.on for tracer in cluster.tracers.values())


def test_a_parameter_server_that_cannot_be_traced_is_left_out(cluster: Cluster) -> None:
    cluster.tracers[PS[0]].start()
    cluster.servers.start_trace()
    assert [trace.task for trace in cluster.servers.stop_trace()] == [PS[1], *WORKERS]
    assert cluster.tracers[PS[0]].on


def test_a_worker_that_is_traced_already_is_named(cluster: Cluster) -> None:
    cluster.tracers[WORKERS[1]].start()
    with pytest.raises(EnforcerError, match=f"^{WORKERS[1]}: it is traced already"):
        cluster.servers.start_trace()


def test_hand_offs_are_read_once(cluster: Cluster) -> None:
    first = cluster.servers.hand_offs()
    assert first == [HandOff(0, "train a -> b", 4, "LATE"), HandOff(0, "evaluate a -> b", 3, "ORDERED")] * 2
    assert [function_of(hand_off.channel) for hand_off in first[:2]] == ["train", "evaluate"]
    assert {hand_off.step for hand_off in cluster.servers.hand_offs()} == {2}
    assert [cluster.hooks[task].cursors for task in PS + WORKERS] == [[0, 2], [0, 2], [], []]


def test_hand_offs_of_workers_are_read_where_they_have_a_plan(cluster: Cluster) -> None:
    cluster.servers.install(BOTH_WAYS)
    assert len(cluster.servers.hand_offs()) == 6
    assert [cluster.hooks[task].cursors for task in PS + WORKERS] == [[0], [0], [], [0]]
