"""The processes of the demo: what they say, how they fail, and that they end with the one who started them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.cluster.demo.link_processes import HERE, SECONDS, TASK, WHY_NOT, is_alive, needs_namespaces, ours
from tests.cluster.speaker import ENVIRONMENT, read_line
from tests.waiting import wait_until
from tfwave.demo import cluster, namespaces, processes
from tfwave.demo.cluster import DemoJob, demo_cluster
from tfwave.demo.model import Replicas
from tfwave.demo.network import LoopbackNetwork, NamespaceNetwork
from tfwave.demo.processes import Task, Tasks
from tfwave.demo.server_task import MODULE, control_address
from tfwave.errors import EnforcerError
from tfwave.runtime.allocator import GROWTH
from tfwave.runtime.control.client import ControlClient

RATE = 200e6
START_SECONDS = 200.0
"""In which TensorFlow is imported, also on a busy machine."""

Held = tuple[subprocess.Popen[str], list[int]]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Task, Task]]:
    network = LoopbackNetwork(("a", "b"), RATE)
    with network, Tasks(network, tmp_path) as tasks:
        yield tasks.start("first", "a", TASK, HERE), tasks.start("second", "b", TASK, HERE)


@needs_namespaces
@pytest.mark.tensorflow
def test_tensorflow_servers_reach_each_other(tmp_path: Path) -> None:
    network = NamespaceNetwork(("server", "worker"), RATE)
    with network, Tasks(network, tmp_path) as tasks:
        address = {h: f"{network.address(h)}:{network.free_ports(h, 1)[0]}" for h in network.hosts}
        cluster = {"ps": [address["server"]], "worker": [address["worker"]]}
        control = control_address(tmp_path, "ps", 0)
        server, worker = (tasks.start(h, h, MODULE, {"TF_CPP_MIN_LOG_LEVEL": "2"}) for h in network.hosts)
        client = tasks.start("client", "worker", TASK, HERE)
        request = {"cluster": cluster, "task": 0, "control": control}
        server.send(request | {"job": "ps", "enforcer": "hook"})
        worker.send(request | {"job": "worker", "enforcer": None})
        assert server.receive(START_SECONDS) == {"ready": True, "control": control}
        assert worker.receive(START_SECONDS) == {"ready": True, "control": None}
        with ControlClient(control) as hook:
            assert not hook.health().installed
        target, count = f"grpc://{address['worker']}", 1 << 18
        found = client.request({"do": "sum", "target": target, "count": count}, START_SECONDS)
        assert found == {"sum": count}
        server.close()
        assert server.has_ended(SECONDS)


@pytest.fixture(params=["loopback", pytest.param("namespaces", marks=needs_namespaces)])
def holder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Held]:
    command = [sys.executable, "-m", "tests.cluster.demo.holder", str(tmp_path), request.param]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | ENVIRONMENT) as it:
        pids = [int(pid) for pid in read_line(it).split()]
        assert len(pids) == 2
        assert all(map(is_alive, pids))
        if request.param == "namespaces":
            assert len(ours(it.pid)) == 3
        yield it, pids
        it.kill()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, -signal.SIGINT), (signal.SIGTERM, 143)])
def test_who_is_told_to_end_ends_tasks_and_network(holder: Held, number: int, code: int) -> None:
    process, pids = holder
    process.send_signal(number)
    assert process.wait(SECONDS) == code
    assert not any(map(is_alive, pids))
    assert WHY_NOT or not ours(process.pid)


def test_a_killed_parent_takes_its_tasks_along(holder: Held) -> None:
    process, pids = holder
    process.kill()
    process.wait(SECONDS)
    wait_until(lambda: not any(map(is_alive, pids)), SECONDS)
    if WHY_NOT is None:
        alive = ours(os.getpid())
        namespaces.sweep("no such prefix")
        assert not ours(process.pid)
        assert ours(os.getpid()) == alive


def test_answers_are_apart_from_what_a_task_prints(pair: tuple[Task, Task]) -> None:
    task = pair[0]
    big = "x" * 300_000  # more than a pipe holds
    assert task.request({"do": "print", "x": big}, SECONDS) == {"x": big}
    task.send({"do": "print", "x": 1})
    task.send({"do": "print", "x": 2})
    assert [task.receive(SECONDS), task.receive(SECONDS)] == [{"x": 1}, {"x": 2}]
    assert "more noise" in task.log.read_text()


def test_a_dead_task_is_named_with_its_last_words(pair: tuple[Task, Task]) -> None:
    task, other = pair
    with pytest.raises(
        EnforcerError, match=r"'first' ended with exit code 7.*first\.log: two \| three \| the"
    ) as e:
        task.request({"do": "exit"}, SECONDS)
    assert "\n" not in str(e.value)
    with pytest.raises(EnforcerError, match="exit code 7"):
        task.request({"do": "print"}, SECONDS)
    other.send({"do": "sleep"})
    os.kill(other.pid, signal.SIGKILL)
    with pytest.raises(EnforcerError, match=r"'second' was killed by SIGKILL.*: nothing"):
        other.receive(SECONDS)


def test_a_silent_or_babbling_task_is_named(pair: tuple[Task, Task]) -> None:
    task, other = pair
    assert task.request({"do": "print"}, SECONDS) == {}
    start = time.monotonic()
    with pytest.raises(EnforcerError, match=r"'first' does not answer within 0\.\d+ s"):
        task.request({"do": "sleep"}, 0.2)
    assert time.monotonic() - start < SECONDS
    with pytest.raises(EnforcerError, match=r"'second' says what is no JSON object"):
        other.request({"do": "babble"}, SECONDS)


def test_a_task_that_does_not_read_is_named(pair: tuple[Task, Task]) -> None:
    task = pair[0]
    task.send({"do": "sleep"})
    with pytest.raises(EnforcerError, match=r"'first' takes no request within 0\.5 s"):
        task.send({"x": "x" * 300_000}, 0.5)


def test_a_task_deaf_to_sigterm_is_killed(pair: tuple[Task, Task], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "GRACE_SECONDS", 0.5)
    task = pair[0]
    assert task.request({"do": "ignore SIGTERM"}, SECONDS) == {}
    start = time.monotonic()
    task.end()
    assert not is_alive(task.pid)
    assert 0.5 < time.monotonic() - start < 3
    task.end()


class Noted:
    """Notes with which variables a demo starts its tasks; the first that is to answer ends it."""

    def __init__(self) -> None:
        self.environments: dict[str, Mapping[str, str]] = {}

    def __enter__(self) -> "Noted":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing runs."""

    def start(self, name: str, host: str, module: str, environment: Mapping[str, str]) -> "Noted":
        del host, module
        self.environments[name] = environment
        return self

    def send(self, message: Mapping[str, object]) -> None:
        del message

    def receive(self, seconds: float) -> None:
        raise EnforcerError(f"not in {seconds} s")


@pytest.mark.parametrize(
    ("device", "own", "visible"), [("CPU:1", None, None), ("GPU:1", None, "0,1"), ("GPU:0", "3", "3")]
)
def test_workers_see_the_gpu_that_they_compute_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str, own: str | None, visible: str | None
) -> None:
    """And take no more of its memory than they need, as all are on one machine; servers see none."""
    noted = Noted()
    monkeypatch.setattr(cluster, "Tasks", lambda *_: noted)
    monkeypatch.setattr(cluster, "open_network", LoopbackNetwork)
    monkeypatch.delenv(processes.VISIBLE, raising=False)
    if own is not None:
        monkeypatch.setenv(processes.VISIBLE, own)
    job = DemoJob(1, 2, RATE, Replicas("MobileNet", image=64, batch=1, device=device))
    with pytest.raises(EnforcerError, match="not in"), demo_cluster(job, tmp_path):
        pass
    assert sorted(noted.environments) == ["ps0", "worker0", "worker1"]
    assert processes.VISIBLE not in noted.environments["ps0"]
    for worker in ("worker0", "worker1"):
        assert noted.environments[worker].get(processes.VISIBLE) == visible
        assert noted.environments[worker].get(GROWTH) == (visible and "true")
