"""The network of the demo keeps its rate, and nothing of it or of its tasks outlives the one who made it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster.cluster import wait_until
from tests.cluster.speaker import ENVIRONMENT, ROOT, read_line
from tfwave.demo import namespaces, processes
from tfwave.demo.network import LoopbackNetwork, NamespaceNetwork, Network, open_network
from tfwave.demo.processes import Task, Tasks
from tfwave.demo.server_task import MODULE, control_address
from tfwave.errors import EnforcerError, EnvironmentUnsupported
from tfwave.runtime.control.client import ControlClient

WHY_NOT = NamespaceNetwork.available()
needs_namespaces = pytest.mark.skipif(WHY_NOT is not None, reason=f"no network namespaces: {WHY_NOT}")

RATE = 200e6
MEGABYTES = 30
TRIES = 5
PAUSE_SECONDS = 1.0
TASK = "tests.cluster.link_task"
SECONDS = 10.0
HERE = {"PYTHONPATH": str(ROOT)}

Held = tuple[subprocess.Popen[str], list[int]]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Task, Task]]:
    network = LoopbackNetwork(("a", "b"), RATE)
    with network, Tasks(network, tmp_path) as tasks:
        yield tasks.start("first", "a", TASK, HERE), tasks.start("second", "b", TASK, HERE)


@pytest.fixture(scope="module")
def wired(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Network, dict[str, Task]]]:
    network = NamespaceNetwork(("server", "w0", "w1"), RATE)
    with network, Tasks(network, tmp_path_factory.mktemp("wired")) as tasks:
        yield network, {host: tasks.start(host, host, TASK, HERE) for host in network.hosts}


def ours(pid: int) -> list[str]:
    return [name for name in namespaces.existing() if name.startswith(f"tfwave-{pid}-")]


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def megabits(
    network: Network, tasks: dict[str, Task], senders: list[str], receivers: list[str]
) -> dict[str, float]:
    """The payload rate at each receiver, Mbit/s, when each sender sends to each."""
    targets = [(network.address(host), *network.free_ports(host, 1)) for host in receivers]
    for host, (address, port) in zip(receivers, targets, strict=True):
        listen = {"do": "listen", "address": address, "port": port, "connections": len(senders)}
        assert tasks[host].request(listen, SECONDS) == {"listening": True}
    share = MEGABYTES // (len(senders) * len(receivers))
    for host in senders:
        tasks[host].send({"do": "send", "targets": targets, "megabytes": share})
    got = {host: tasks[host].receive(SECONDS) for host in receivers}
    assert all(tasks[host].receive(SECONDS) == {"sent": True} for host in senders)
    assert sum(g["bytes"] for g in got.values()) == MEGABYTES << 20
    return {host: g["bytes"] * 8e-6 / g["seconds"] for host, g in got.items()}


def fills_the_link(measure: Callable[[], float]) -> bool:
    """Never above the rate, and nearly at it where the machine has time for it: others slow a transfer down."""
    for _ in range(TRIES):
        rate = measure()
        assert rate < RATE / 1e6
        if rate > 0.9 * RATE / 1e6:
            return True
        time.sleep(PAUSE_SECONDS)
    return False


@needs_namespaces
@pytest.mark.parametrize(("sender", "receiver"), [("server", "w0"), ("w0", "server")])
def test_a_transfer_runs_at_the_rate(
    wired: tuple[Network, dict[str, Task]], sender: str, receiver: str
) -> None:
    assert fills_the_link(lambda: megabits(*wired, [sender], [receiver])[receiver])


@needs_namespaces
def test_two_receivers_share_the_card_of_the_sender(wired: tuple[Network, dict[str, Task]]) -> None:
    assert fills_the_link(lambda: 2 * min(megabits(*wired, ["server"], ["w0", "w1"]).values()))


@needs_namespaces
def test_two_senders_share_the_card_of_the_receiver(wired: tuple[Network, dict[str, Task]]) -> None:
    assert fills_the_link(lambda: megabits(*wired, ["w0", "w1"], ["server"])["server"])


@needs_namespaces
def test_each_host_is_a_machine_of_its_own(wired: tuple[Network, dict[str, Task]]) -> None:
    network, tasks = wired
    assert network.pacing_bytes_per_second == 0
    assert network.address("w0") != network.address("w1")
    assert all(task.request({"do": "print", "x": 1}, SECONDS) == {"x": 1} for task in tasks.values())
    assert all(os.getsid(task.pid) == task.pid for task in tasks.values())  # Ctrl-C does not reach them
    assert os.readlink(f"/proc/{tasks['w0'].pid}/ns/net") != os.readlink("/proc/self/ns/net")


@needs_namespaces
def test_nothing_is_left_after_an_exception(tmp_path: Path) -> None:
    network = NamespaceNetwork(("a", "b"), RATE)
    before = ours(os.getpid())
    tasks = Tasks(network, tmp_path)

    def fail() -> None:
        with network, tasks:
            tasks.start("a", "a", TASK, HERE)
            assert len(ours(os.getpid())) == len(before) + 3
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert ours(os.getpid()) == before
    assert not is_alive(tasks.started[0].pid)


@needs_namespaces
def test_nothing_is_left_of_a_network_that_cannot_be_built(monkeypatch: pytest.MonkeyPatch) -> None:
    before = namespaces.existing()
    monkeypatch.setattr(namespaces, "NIC", "a-name-too-long-for-linux")
    with pytest.raises(EnvironmentUnsupported, match=r"'ip link add .*' fails"):
        NamespaceNetwork(("a", "b"), RATE).__enter__()
    assert namespaces.existing() == before
    assert "fails" in (NamespaceNetwork.available() or "")
    network = open_network(("a",), RATE)
    assert isinstance(network, LoopbackNetwork)
    assert "ip link add" in network.description


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
        assert server.receive(60) == {"ready": True, "control": control}
        assert worker.receive(60) == {"ready": True, "control": None}
        with ControlClient(control) as hook:
            assert not hook.health().installed
        target, count = f"grpc://{address['worker']}", 1 << 18
        assert client.request({"do": "sum", "target": target, "count": count}, 60) == {"sum": count}
        server.close()
        assert server.has_ended(SECONDS)


@pytest.mark.parametrize("kind", ["not root", "no command 'tc'"])
def test_why_namespaces_are_not_available(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000 if kind == "not root" else 0)
    (tmp_path / "ip").symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert NamespaceNetwork.available() == kind


@pytest.fixture(params=["loopback", pytest.param("namespaces", marks=needs_namespaces)])
def holder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Held]:
    command = [sys.executable, "-m", "tests.cluster.holder", str(tmp_path), request.param]
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
    wait_until(lambda: not any(map(is_alive, pids)), 3)
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
    assert time.monotonic() - start < 1
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


def test_loopback_is_paced_by_the_hook() -> None:
    network = LoopbackNetwork(("a", "b"), RATE, "not root")
    assert "token bucket" in network.description
    assert "not root" in network.description
    assert network.pacing_bytes_per_second == RATE / 8
    assert network.address("a") == "127.0.0.1"
    assert network.command_prefix("a") == []
    assert len({*network.free_ports("a", 50), *network.free_ports("b", 50)}) == 100


@pytest.mark.parametrize(
    ("hosts", "rate", "message"),
    [
        ((), RATE, "0 hosts"),
        (("a", "a"), RATE, "different names"),
        (("../a",), RATE, "host name '../a'"),
        (("a",), 0, "link rate 0"),
        (("a",), float("nan"), "link rate nan"),
    ],
)
def test_bad_networks_are_refused(hosts: tuple[str, ...], rate: float, message: str) -> None:
    with pytest.raises(EnforcerError, match=message):
        open_network(hosts, rate)


def test_an_unknown_host_is_named() -> None:
    with pytest.raises(EnforcerError, match="no host 'c' in this network: it has a, b"):
        LoopbackNetwork(("a", "b"), RATE).address("c")


def test_a_socket_path_too_long_is_refused(tmp_path: Path) -> None:
    assert control_address(Path("/run/x"), "ps", 0) == "unix:/run/x/ps0.sock"
    with pytest.raises(EnforcerError, match="too long"):
        control_address(tmp_path / ("x" * 100), "ps", 0)
