"""Channels that go by priority, in real servers: pulls and pushes, in what order, and never for ever."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import pairwise

import pytest
import tensorflow as tf

from tests.cluster.cluster import Cluster, hooked_both_ways
from tests.cluster.model import VARIABLES, Model, build, flood, gate_first, partitions, plan_of, sends
from tests.waiting import wait_until
from tfwave.plan.plan import Plan
from tfwave.report.conformance import Conformance, HandOff, conformance, read_hand_offs
from tfwave.runtime.control.client import ControlClient

v1 = tf.compat.v1

pytestmark = pytest.mark.tensorflow

STEPS = 25
SIZE = 1 << 18
TENSOR = 4 * SIZE
FLOOD = 100
LONG = 60.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with hooked_both_ways() as started:
        yield started


@pytest.fixture(scope="module")
def models(cluster: Cluster) -> Iterator[list[Model]]:
    made = [build(cluster, worker, [0], f"w{worker}", SIZE) for worker in (0, 1)]
    yield made
    made[0].session.close()
    made[1].abandon()  # its worker is dead


@pytest.fixture
def hooks(cluster: Cluster) -> Iterator[list[ControlClient]]:
    """Of the server and both workers."""
    with ExitStack() as stack:
        tasks = (*cluster.ps, *cluster.workers)
        clients = [stack.enter_context(ControlClient(task.control[0])) for task in tasks]
        yield clients
        clients[0].configure(deadline_seconds=5, bytes_per_second=0)
        clients[0].remove()


def _hand_offs(client: ControlClient) -> list[HandOff]:
    return read_hand_offs(client.hand_offs(), lambda _, channel: str(channel))


def _judged(client: ControlClient) -> Conformance:
    return conformance(_hand_offs(client))


def _overtakes(log: list[HandOff]) -> int:
    """Pairs of neighbours in which the first was ready later."""
    return sum(a.ready_nanos > b.ready_nanos for a, b in pairwise(log))


def test_pulls_and_pushes_of_two_workers_are_ordered_and_change_no_bit(
    models: list[Model], hooks: list[ControlClient]
) -> None:
    edges: dict[tuple[str, str], list[str]] = {}
    for model in models:
        edges |= sends(model.partitions([model.loss, model.train]))
    plan = plan_of(edges, 1, source="", window_bytes=2 * TENSOR)
    assert len(plan.orders) == 4
    losses: list[list[list[float]]] = []
    for installed in (False, True):
        for model in models:
            model.session.run(model.session.graph.get_operation_by_name("init"))
        for hook in hooks:
            if installed:
                hook.install(plan)
        with ThreadPoolExecutor(2) as pool:
            losses.append(list(pool.map(lambda m: m.step(STEPS), models)))
    assert losses[0] == losses[1]
    assert len({loss for of_model in losses[0] for loss in of_model}) >= STEPS
    for hook, channels in zip(hooks, (2, 1, 1), strict=True):
        log = _hand_offs(hook)
        figures = conformance(log)
        assert figures.exact
        assert [c.hand_offs for c in figures.channels] == [VARIABLES * STEPS] * channels
        assert {h.reason for h in log} == {"ORDERED"}
        assert _overtakes(log) > STEPS
        counters = hook.health().counters
        assert (counters.held, counters.live_steps, counters.deadlines, counters.unplanned) == (0, 0, 0, 0)


def test_what_is_not_ready_delays_no_other(models: list[Model], hooks: list[ControlClient]) -> None:
    model, server = models[0], hooks[0]
    plan = _gated(model, window_bytes=64 * TENSOR)
    before = server.install(plan, deadline_seconds=LONG).counters
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(model.session.run, model.blocked)
        wait_until(lambda: server.health().counters.ordered - before.ordered == VARIABLES)
        assert server.health().counters.held == 0
        model.session.run(model.unblock)
        job.result(timeout=100)
    log = _hand_offs(server)
    assert [h.rank for h in log][-1] == 0
    assert _judged(server).exact


def test_the_urgent_overtakes_all_that_waits(models: list[Model], hooks: list[ControlClient]) -> None:
    model, server = models[0], hooks[0]
    server.install(_gated(model, window_bytes=TENSOR), deadline_seconds=LONG, bytes_per_second=5 * TENSOR)
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(model.session.run, model.blocked)
        wait_until(lambda: server.health().counters.held == VARIABLES - 1)
        model.session.run(model.unblock)
        wait_until(lambda: any(h.rank == 0 for h in _hand_offs(server)))
        server.configure(bytes_per_second=0)
        job.result(timeout=100)
    log = _hand_offs(server)
    (urgent,) = (h for h in log if h.rank == 0)
    assert not any(urgent.ready_nanos < h.time_nanos < urgent.time_nanos for h in log)
    assert sum(h.time_nanos > urgent.time_nanos for h in log) > VARIABLES // 2
    assert _judged(server).exact


def _gated(model: Model, window_bytes: int) -> Plan:
    model.session.run(model.unblock)
    edges = sends(model.partitions(model.blocked))
    return gate_first(plan_of(edges, 3), window_bytes)


def test_a_receiver_that_takes_nothing_stops_no_other(
    cluster: Cluster, models: list[Model], hooks: list[ControlClient]
) -> None:
    """The last test of the cluster."""
    model, server, victim = models[0], hooks[0], cluster.workers[1].process
    session, total = flood(cluster, 1, FLOOD)
    edges = sends(model.partitions([model.loss, model.train])) | sends(partitions(session, total))
    plan = plan_of(edges, 3, window_bytes=2 * TENSOR)
    before = server.install(plan, deadline_seconds=LONG, bytes_per_second=4 * TENSOR).counters
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(session.run, total, options=v1.RunOptions(timeout_in_ms=12_000))
        wait_until(lambda: server.health().counters.held > FLOOD // 2)
        os.kill(victim.pid, signal.SIGSTOP)
        server.configure(bytes_per_second=0)
        model.step(STEPS)
        assert server.health().counters.held > 0
        server.configure(deadline_seconds=0.5)
        wait_until(lambda: server.health().counters.held == 0)
        assert server.health().counters.deadlines - before.deadlines == 1
        model.step(3)
        victim.kill()
        with pytest.raises(tf.errors.OpError):
            job.result(timeout=100)
    model.step(3)
    counters = server.health().counters
    assert (counters.held, counters.live_steps) == (0, 0)
    to_model, _ = _judged(server).channels
    assert (to_model.violations, to_model.hand_offs) == (0, VARIABLES * (STEPS + 6))
    session._closed = True  # its master is dead
