"""The hook and the proxy in real servers: the same orders, and never waits for ever."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import tensorflow as tf

from tests.cluster.cluster import Cluster, enforced
from tests.cluster.model import (
    VARIABLES,
    Model,
    branching,
    build,
    by_step,
    gate_first,
    inversions,
    plan_of,
    sends,
)
from tests.plans import refusal_of
from tests.waiting import wait_until
from tfwave.errors import EnforcerError
from tfwave.plan.message import to_proto
from tfwave.plan.plan import Plan
from tfwave.runtime.control.client import ControlClient

v1 = tf.compat.v1

pytestmark = pytest.mark.tensorflow

ORDERED, RELEASED, LATE, OFF = range(4)
STEPS = 30
LONG = 60.0
TRIES = 5
SERVER = "/job:ps/replica:0/task:0"


@pytest.fixture(scope="module", params=["hook", "proxy"])
def enforcer(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def cluster(enforcer: str) -> Iterator[Cluster]:
    with enforced(enforcer) as started:
        yield started


@pytest.fixture(scope="module")
def models(cluster: Cluster) -> Iterator[list[Model]]:
    made = [build(cluster, worker, [0], f"w{worker}") for worker in (0, 1)]
    yield made
    made[0].session.close()
    made[1].abandon()  # its worker is dead


@pytest.fixture(scope="module")
def plan(models: list[Model]) -> Plan:
    """A random order of what the server sends to both workers."""
    edges: dict[tuple[str, str], list[str]] = {}
    for model in models:
        edges |= sends(model.partitions([model.loss, model.train]))
    return plan_of(edges, 1, SERVER)


@pytest.fixture
def blocked_step(models: list[Model]) -> Iterator[Any]:
    """Starts a step whose first planned transfer waits for `unblock`."""
    model = models[0]
    plan = gate_first(plan_of(_blocked_edges(model), 3, SERVER))
    with ThreadPoolExecutor(2) as pool:
        yield plan, lambda fetch=model.blocked, **kw: pool.submit(model.session.run, fetch, **kw)


def _blocked_edges(model: Model) -> dict[tuple[str, str], list[str]]:
    model.session.run(model.unblock)
    return sends(model.partitions(model.blocked))


def test_two_workers_get_the_plan_on_every_step(
    enforcer: str, models: list[Model], plan: Plan, ps0: ControlClient
) -> None:
    assert len(plan.orders) == 2
    ps0.install(plan)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda m: m.step(STEPS), models))
    log = ps0.hand_offs()
    steps = by_step(log)
    assert len(steps) == 2 * STEPS
    assert all(ranks == list(range(VARIABLES)) and why == {ORDERED} for ranks, why in steps)
    assert {h.bytes for h in log.hand_offs} == {256 * 4}
    status = ps0.health()
    assert status.enforcer == enforcer
    counters = status.counters
    assert (counters.deadlines, counters.released, counters.late, counters.held) == (0, 0, 0, 0)
    assert (counters.live_steps, counters.unplanned) == (0, 0)


def test_switched_off_half_of_the_pairs_are_inverted(
    models: list[Model], plan: Plan, ps0: ControlClient
) -> None:
    ps0.install(plan, enabled=False)
    models[0].step(STEPS)
    steps = by_step(ps0.hand_offs())
    assert len(steps) == STEPS
    assert all(sorted(ranks) == list(range(VARIABLES)) and why == {OFF} for ranks, why in steps)
    mean = sum(inversions(ranks) for ranks, _ in steps) / len(steps)
    assert 0.25 < mean < 0.75


def test_results_are_bit_equal_in_any_order(models: list[Model], ps0: ControlClient) -> None:
    model = models[0]
    init = model.session.graph.get_operation_by_name("init")
    edges = sends(model.partitions(model.loss))
    losses: list[list[float]] = []
    for seed in (None, 1, 2, -1):
        model.session.run(init)
        if seed is not None:
            ps0.install(plan_of(edges, seed, SERVER), enabled=seed != -1)
        losses.append(model.step(10))
    assert losses[0] == losses[1] == losses[2] == losses[3]
    assert len(set(losses[0])) == 10


def test_dense_ranks_for_eval_steps_and_concurrent_graphs(
    models: list[Model], plan: Plan, ps0: ControlClient
) -> None:
    model, other = models
    before = ps0.install(plan, deadline_seconds=LONG).counters

    def alternate(_: int) -> None:
        for _ in range(10):
            model.step()
            model.session.run(model.evaluation)

    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(alternate, 0), pool.submit(alternate, 1), pool.submit(other.step, 20)]
        [job.result(timeout=100) for job in jobs]
    steps = by_step(ps0.hand_offs())
    assert all(ranks == sorted(ranks) and why == {ORDERED} for ranks, why in steps)
    assert sorted(len(ranks) for ranks, _ in steps) == [VARIABLES // 3] * 20 + [VARIABLES] * 40
    counters = ps0.health().counters
    assert (counters.deadlines - before.deadlines, counters.live_steps, counters.held) == (0, 0, 0)


def test_loops_and_branches_never_wait(cluster: Cluster, ps0: ControlClient) -> None:
    session, total = branching(cluster, 0)
    metadata, options = v1.RunMetadata(), v1.RunOptions(output_partition_graphs=True)
    before = ps0.health().counters
    expected = [session.run(total, {"PlaceholderWithDefault:0": pick}) for pick in (True, False)]
    session.run(total, options=options, run_metadata=metadata)
    ps0.install(plan_of(sends(metadata.partition_graphs), 4, SERVER), deadline_seconds=LONG)
    found = [session.run(total, {"PlaceholderWithDefault:0": pick}) for pick in (True, False) * 3]
    assert found == expected * 3
    steps = by_step(ps0.hand_offs())
    assert len(steps) == 6
    assert all(ranks == sorted(ranks) and len(ranks) >= 3 and why == {ORDERED} for ranks, why in steps)
    counters = ps0.health().counters
    assert (counters.deadlines - before.deadlines, counters.live_steps, counters.held) == (0, 0, 0)
    session.close()


def test_an_aborted_step_lets_go(blocked_step: Any, models: list[Model], ps0: ControlClient) -> None:
    plan, run = blocked_step
    ps0.install(plan, deadline_seconds=LONG)
    job = run(options=v1.RunOptions(timeout_in_ms=5000))
    wait_until(lambda: ps0.health().counters.held == VARIABLES)
    with pytest.raises(tf.errors.DeadlineExceededError):
        job.result(timeout=100)
    wait_until(lambda: ps0.health().counters.live_steps == 0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="broken on purpose"):
        run(models[0].failing).result(timeout=100)
    wait_until(lambda: ps0.health().counters.live_steps == 0)
    assert ps0.health().counters.held == 0


@pytest.mark.parametrize("how", ["off", "remove", "replace", "deadline"])
def test_what_is_held_is_let_go(how: str, blocked_step: Any, models: list[Model], ps0: ControlClient) -> None:
    plan, run = blocked_step
    before = ps0.install(plan, deadline_seconds=LONG).counters
    job = run()
    wait_until(lambda: ps0.health().counters.held == VARIABLES)
    if how == "off":
        ps0.configure(enabled=False)
    elif how == "remove":
        ps0.remove()
    elif how == "replace":
        ps0.install(plan)
    else:
        ps0.configure(deadline_seconds=0.5)
    wait_until(lambda: ps0.health().counters.held == 0)
    after = ps0.health().counters
    assert after.released - before.released == VARIABLES
    assert after.live_steps == 0
    assert after.deadlines - before.deadlines == (how == "deadline")
    models[0].session.run(models[0].unblock)
    job.result(timeout=100)
    if how == "deadline":
        steps = by_step(ps0.hand_offs())
        assert [ranks for ranks, _ in steps] == [[*range(1, VARIABLES + 1), 0]]
        assert ps0.health().counters.late - before.late == 1


def test_pacing_keeps_the_rate_with_and_without_a_plan(
    models: list[Model], plan: Plan, ps0: ControlClient
) -> None:
    model, sent = models[0], VARIABLES * 256 * 4
    for install in (False, True):
        if install:
            ps0.install(plan)
        ps0.configure(bytes_per_second=sent * 2)
        seconds = [_seconds_of(lambda: model.step(3))]
        while seconds[-1] >= 2.5 and len(seconds) < TRIES:
            seconds.append(_seconds_of(lambda: model.step(3)))
        assert 1.5 <= min(seconds) < 2.5
        ps0.configure(bytes_per_second=0)
    assert all(ranks == list(range(VARIABLES)) for ranks, _ in by_step(ps0.hand_offs()))


def _seconds_of(work: Callable[[], object]) -> float:
    start = time.monotonic()
    work()
    return time.monotonic() - start


def test_bad_plans_and_settings_are_refused(enforcer: str, plan: Plan, ps0: ControlClient) -> None:
    ps0.install(plan)
    worse = to_proto(plan)
    worse.orders[0].transfers[0].rank = 1
    assert "has rank 1 where 0 belongs" in refusal_of(ps0.address, worse)
    with pytest.raises(EnforcerError, match="deadline"):
        ps0.configure(deadline_seconds=0)
    status = ps0.health()
    assert status.installed
    assert status.enabled
    assert status.enforcer == enforcer
    assert status.deadline_seconds == 5


def test_a_killed_worker_does_not_stop_the_other(
    cluster: Cluster, models: list[Model], plan: Plan, ps0: ControlClient
) -> None:
    """The last test of a cluster."""
    model, victim = models
    edges = _blocked_edges(victim) | _edges_to_worker_0(plan)
    ps0.install(gate_first(plan_of(edges, 3, SERVER)), deadline_seconds=LONG)
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(victim.session.run, victim.blocked, options=v1.RunOptions(timeout_in_ms=8000))
        wait_until(lambda: ps0.health().counters.held == VARIABLES)
        cluster.workers[1].kill()
        ps0.configure(deadline_seconds=2)
        model.step(STEPS)
        with pytest.raises(tf.errors.OpError):
            job.result(timeout=100)
    wait_until(lambda: ps0.health().counters.live_steps == 0)
    assert ps0.health().counters.held == 0
    model.step(3)


def _edges_to_worker_0(plan: Plan) -> dict[tuple[str, str], list[str]]:
    order = next(o for o in plan.orders if "/job:worker/replica:0/task:0" in o.channel.destination)
    return {(order.channel.source, order.channel.destination): [t.edge for t in order.transfers]}
