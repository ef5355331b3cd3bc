"""The simulator against SimPy, and what holds in every run."""

import random
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.simulator_oracle import Model, random_kernel_job
from tests.property.simulator_steps import (
    FREE_CLUSTERS,
    SHARED_CLUSTERS,
    model_of,
    random_rules,
    random_step,
    view_of,
)
from tfwave.errors import PlanError
from tfwave.plan.discipline import Discipline
from tfwave.sim.engine import UNTIMED, Job, Outcome, run
from tfwave.sim.job import compile_job
from tfwave.sim.sharing import fair_rates
from tfwave.sim.simulate import ranks_of, simulate

PER_BLOCK = 40


@pytest.mark.parametrize("block", range(4))
@pytest.mark.parametrize("shared", [False, True], ids=["alone", "shared"])
def test_the_kernel_equals_simpy(block: int, *, shared: bool) -> None:
    """To the tick where no rate is shared; where one is, each task is rounded to ticks (of 1e-12 of the run)."""
    for i in range(PER_BLOCK):
        job = random_kernel_job(random.Random(f"simpy {shared} {block}/{i}"), shared=shared)
        model, outcome = Model(job, job.carried).run(), run(job)
        tasks = range(len(job.units))
        assert bool(outcome.blocked) == any(outcome.end[t] < 0 and job.units[t] != UNTIMED for t in tasks)
        assert {t for t in tasks if outcome.end[t] >= 0} == model.end.keys()
        off = [abs(outcome.end[t] - end) for t, end in model.end.items()]
        off += [abs(outcome.begin[t] - begin) for t, begin in model.begin.items()]
        assert max(off, default=0) <= (len(tasks) if shared else 0)


@pytest.mark.parametrize("shared", [False, True], ids=["alone", "shared"])
def test_a_step_equals_simpy(*, shared: bool) -> None:
    """Graphs with several workers and servers, read into SimPy by other code."""
    finished = 0
    for i in range(60):
        rng = random.Random(f"step {shared} {i}")
        step = random_step(rng, shared=shared)
        cluster = rng.choice(SHARED_CLUSTERS if shared else FREE_CLUSTERS)
        rules = random_rules(rng, step)
        view, transfers = view_of(step)
        exact = model_of(step, cluster, rules).run()
        job = compile_job(view, transfers, step.costs, cluster, {r.channel: r.discipline for r in rules})
        if len(exact.end) < len(view):
            with pytest.raises(PlanError, match="waits for itself"):
                job.makespan(ranks_of(transfers.data, rules))
            continue
        finished += 1
        outcome = job.run(ranks_of(transfers.data, rules))
        for task, name in enumerate(sorted(view.names)):
            node = view.names.index(name)
            assert job.ticks.seconds(outcome.begin[node]) == pytest.approx(float(exact.begin[task]), rel=1e-9)
            assert job.ticks.seconds(outcome.end[node]) == pytest.approx(float(exact.end[task]), rel=1e-9)
        makespan = simulate(view, transfers, step.costs, cluster, rules).makespan_seconds
        assert makespan == job.makespan(ranks_of(transfers.data, rules))
        assert makespan == pytest.approx(float(exact.finish), rel=1e-9)
    assert finished > 40


@settings(max_examples=60, deadline=None, database=None)
@given(rng=st.randoms(use_true_random=False))
def test_renumbering_changes_no_timeline(rng: random.Random) -> None:
    step = random_step(rng, shared=rng.random() < 0.5)
    cluster, rules = rng.choice(FREE_CLUSTERS + SHARED_CLUSTERS), random_rules(rng, step, feasible=True)
    first, other = (simulate(*view_of(s), s.costs, cluster, rules) for s in (step, step.renumbered(rng)))
    assert first == other


def test_a_compiled_job_keeps_nothing_of_a_run() -> None:
    rng = random.Random("again")
    for _ in range(20):
        job = random_kernel_job(rng, shared=True)
        first = run(job)
        run(job, rng.sample(list(job.carried), len(job.carried)))
        assert run(job) == first


def test_each_task_runs_once_after_all_it_waits_for_and_no_unit_holds_more_than_it_can() -> None:
    rng = random.Random("conservation")
    for i in range(150):
        job = random_kernel_job(rng, shared=i % 2 == 0)
        outcome = run(job)
        for task, successors in enumerate(job.successors):
            if outcome.end[task] >= 0:
                assert outcome.end[task] - outcome.begin[task] >= job.durations[task]
            for successor in successors:
                assert outcome.begin[successor] < 0 or 0 <= outcome.end[task] <= outcome.begin[successor]
        for unit, servers in enumerate([*(p.servers for p in job.pools), *(1 for _ in job.lanes)]):
            assert most_at_once(job, outcome, unit) <= servers


def most_at_once(job: Job, outcome: Outcome, unit: int) -> int:
    latency = job.lanes[unit - len(job.pools)].latency if unit >= len(job.pools) else 0
    change: Counter[int] = Counter()
    for task, at in enumerate(job.units):
        if at == unit and outcome.end[task] >= 0:
            change[outcome.begin[task]] += 1
            change[outcome.end[task] - latency] -= 1
    held = [0]
    for _, by in sorted(change.items()):
        held.append(held[-1] + by)
    assert held[-1] == 0
    return max(held)


def test_a_lane_that_conserves_work_never_idles_while_a_task_is_ready() -> None:
    rng = random.Random("busy")
    for _ in range(100):
        job = random_kernel_job(rng, shared=False)
        outcome = run(job)
        ready = ready_at(job, outcome)
        for number, lane in enumerate(job.lanes, len(job.pools)):
            own = sorted((outcome.begin[t], t) for t in job.carried if job.units[t] == number and t in ready)
            if lane.discipline is Discipline.COUNTER:
                assert [t for _, t in own] == [t for t in job.carried if (outcome.begin[t], t) in own]
                continue
            for (_, before), (begin, task) in pairwise(own):
                left = outcome.end[before] - lane.latency
                assert begin == max(left, ready[task]) or begin == left


def ready_at(job: Job, outcome: Outcome) -> dict[int, int]:
    ready = {t: 0 for t in range(len(job.units)) if outcome.begin[t] >= 0}
    for task, successors in enumerate(job.successors):
        for successor in successors:
            if successor in ready:
                ready[successor] = max(ready[successor], outcome.end[task])
    return ready


def test_rates_are_max_min_fair() -> None:
    """Each lane passes a port that is full and on which no lane has more."""
    rng = random.Random("fair")
    for _ in range(300):
        ports = rng.randint(2, 8)
        bandwidths = [rng.choice((1.0, 2.0, 3.0, 10.0, 1e9)) for _ in range(ports)]
        lanes = {lane: rng.sample(range(ports), rng.randint(1, 2)) for lane in range(rng.randint(1, 10))}
        rates = fair_rates(lanes, bandwidths)
        assert rates.keys() == lanes.keys()
        users = {port: [rates[lane] for lane, own in lanes.items() if port in own] for port in range(ports)}
        assert all(sum(used) <= bandwidths[port] * (1 + 1e-12) for port, used in users.items())
        for lane, own in lanes.items():
            assert any(
                sum(users[p]) >= bandwidths[p] * (1 - 1e-12) and rates[lane] >= max(users[p]) * (1 - 1e-12)
                for p in own
            )
