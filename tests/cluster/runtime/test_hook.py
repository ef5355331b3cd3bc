"""What only the hook does: several servers in one process, and a server that runs already."""

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.model import VARIABLES, Model, build, by_step, plan_of, sends
from tfwave.errors import EnforcerError
from tfwave.runtime.control.client import ControlClient
from tfwave.runtime.hook import Hook
from tfwave.runtime.server import Server

pytestmark = pytest.mark.tensorflow

ORDERED = 0
STEPS = 30


def test_two_servers_in_one_process_and_one_elsewhere(cluster: Cluster) -> None:
    model = build(cluster, 0, [0, 1, 2], "spread")
    edges = sends(model.partitions([model.loss, model.train]))
    one, two, _ = cluster.ps
    addresses = [*one.control, *two.control]
    assert len(addresses) == 3
    clients = [ControlClient(a) for a in addresses]
    whole = plan_of(edges, seed=5)
    assert len(whole.orders) == 3
    for client in clients[:2]:
        client.install(whole)
    model.step(STEPS)
    logs = [client.hand_offs() for client in clients]
    assert logs[1] == logs[2]
    for log, servers in zip(logs[:2], (1, 2), strict=True):
        steps = by_step(log)
        assert len(steps) == STEPS * servers
        assert all(r == list(range(VARIABLES // 3)) and why == {ORDERED} for r, why in steps)
    for client in clients:
        counters = client.health().counters
        assert (counters.live_steps, counters.held) == (0, 0)
        client.remove()
        client.close()
    model.session.close()


def test_a_running_server_is_wrapped(cluster: Cluster) -> None:
    model = build(cluster, 0, [3], "wrapped")
    edges = sends(model.partitions([model.loss, model.train]))
    twin = build(cluster, 0, [0], "twin")
    twin.step(1)
    assert model.step(3) == twin.step(3)  # one server is stock, the other hooked
    twin.session.close()
    stock = cluster.ps[2]
    stock.wrap()
    with ControlClient(stock.control[0]) as client:
        client.install(plan_of(edges, seed=6))
        model.step(STEPS)
        steps = by_step(client.hand_offs())
        assert len(steps) == STEPS
        assert all(ranks == list(range(VARIABLES)) and why == {ORDERED} for ranks, why in steps)
        assert client.health().counters.live_steps == 0
        _a_transfer_that_never_comes(client, model, edges)
    model.session.close()


def _a_transfer_that_never_comes(client: ControlClient, model: Model, edges: Any) -> None:
    (pair,) = [p for p in edges if "/job:ps" in p[0]]
    names = sorted(edges[pair])
    never = [*names[:5], "edge_9999_never", *names[5:]]
    client.install(plan_of({pair: never}, seed=None), deadline_seconds=2)
    before = client.health().counters
    model.step(2)
    after = client.health().counters
    assert after.deadlines - before.deadlines == 2
    assert after.released - before.released == 2 * (VARIABLES - 5)
    assert (after.live_steps, after.held) == (0, 0)
    steps = by_step(client.hand_offs())
    assert [ranks for ranks, _ in steps] == [[r for r in range(VARIABLES + 1) if r != 5]] * 2


def test_a_port_in_use_is_named(cluster: Cluster) -> None:
    taken = cluster.spec["ps"][0]
    with pytest.raises(EnforcerError, match=taken):
        Server({"ps": [taken]}, "ps", 0)
    port = int(taken.rpartition(":")[2])
    with pytest.raises(EnforcerError, match=f"port {port}"):
        Server({"ps": ["127.0.0.1:1"]}, "ps", 0, port=port)
    control = cluster.ps[0].control[0]
    with pytest.raises(EnforcerError, match=control):
        Server({"ps": ["127.0.0.1:0"]}, "ps", 0, control=control)
    with pytest.raises(EnforcerError, match=r"tf\.distribute\.Server"):
        Server.wrap(object())


def test_a_name_that_is_no_task_is_refused() -> None:
    for name in ("ps", "/job:ps/task:0", "/job:ps/replica:0/task:0/device:CPU:0", "not a task"):
        with pytest.raises(EnforcerError, match="is no task: write /job:NAME/replica:N/task:N"):
            Hook().configure(hooked_tasks=["/job:ps/replica:0/task:0", name])


def test_channels_are_not_read_while_they_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the new plan's hand-offs would be taken for those of the channels before."""
    hook = Hook()
    ends = [("/job:ps/task:0", "/job:worker/task:1"), ("/job:ps/task:0", "/job:worker/task:0")]
    hook.install(plan_of({ends[0]: ["edge_1_a"]}, seed=None))
    installed, go_on = Event(), Event()
    call = hook._call

    def slow(name: str, *arguments: Any) -> None:
        call(name, *arguments)
        if name == "tfwave_install":
            installed.set()
            assert go_on.wait(30)

    monkeypatch.setattr(hook, "_call", slow)
    with ThreadPoolExecutor(2) as pool:
        changed = pool.submit(hook.install, plan_of({pair: ["edge_1_a"] for pair in ends}, seed=None))
        assert installed.wait(30)
        read = pool.submit(Hook().hand_offs)
        time.sleep(0.2)
        go_on.set()
        changed.result()
        assert len(read.result().channels) == 2
    hook.remove()
