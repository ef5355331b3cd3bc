"""The network of the demo keeps its rate, and nothing of it is left behind."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster.demo.link_processes import HERE, SECONDS, TASK, is_alive, needs_namespaces, ours
from tfwave.demo import namespaces
from tfwave.demo.network import LoopbackNetwork, NamespaceNetwork, Network, open_network
from tfwave.demo.processes import Task, Tasks
from tfwave.demo.server_task import control_address
from tfwave.errors import EnforcerError, EnvironmentUnsupported

RATE = 200e6
MEGABYTES = 30
TRIES = 5
PAUSE_SECONDS = 1.0


@pytest.fixture(scope="module")
def wired(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Network, dict[str, Task]]]:
    network = NamespaceNetwork(("server", "w0", "w1"), RATE)
    with network, Tasks(network, tmp_path_factory.mktemp("wired")) as tasks:
        yield network, {host: tasks.start(host, host, TASK, HERE) for host in network.hosts}


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


@pytest.mark.parametrize("kind", ["not root", "no command 'tc'"])
def test_why_namespaces_are_not_available(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000 if kind == "not root" else 0)
    (tmp_path / "ip").symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert NamespaceNetwork.available() == kind


def test_namespaces_are_not_available_where_a_command_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(command: list[str], timeout: float, **_: object) -> None:
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", hang)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda tool: f"/sbin/{tool}")
    assert "no network namespaces: 'ip netns list' has not ended" in open_network(["a"], RATE).description


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
