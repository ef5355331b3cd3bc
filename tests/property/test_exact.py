"""The exact optimum against all orders, and the floors against all schedules."""

import random
from fractions import Fraction
from itertools import permutations

import networkx as nx
import pytest

from tests.graphs import SERVERS, WORKER, Builder, Job, random_job, with_costs
from tests.property.oracle import Oracle, oracle_of, whole_parts
from tfwave.graph.transfer import find_transfers
from tfwave.graph.view import GraphView
from tfwave.order.bounds import find_bounds
from tfwave.order.registry import find_policy
from tfwave.sim.makespan import makespan

JOBS = 110
LARGEST_OF_ALL_ORDERS = 5


def optimum(oracle: Oracle) -> Fraction:
    orders = [o for o in permutations(sorted(oracle.recvs)) if oracle.respects_blockers(o)]
    return min(oracle.makespan(order) for order in orders)


def small_jobs() -> list[Job]:
    found = [random_job(random.Random(f"exact {i}")) for i in range(JOBS)]
    return [job for job in found if 2 <= len(job.view()[1]) <= LARGEST_OF_ALL_ORDERS]


def test_no_order_is_better_than_the_exact_one() -> None:
    waiting = 0
    jobs = small_jobs()
    for job in jobs:
        view, transfers = job.view()
        oracle = oracle_of(job)
        waiting += any(oracle.dep[r] for r in oracle.recvs)
        order = [ranked.transfer for ranked in find_policy("exact")(view, transfers, job.costs)]
        assert Fraction(str(makespan(view, order, job.costs))) == optimum(oracle)
    assert len(jobs) > 30
    assert 10 < waiting < len(jobs)


def test_floors_are_under_the_exact_optimum() -> None:
    tight = 0
    for i in range(80):
        job = random_job(random.Random(f"floors {i}"))
        view, transfers = job.view()
        order = [ranked.transfer for ranked in find_policy("search")(view, transfers, job.costs)]
        bounds = find_bounds(view, transfers, job.costs)
        gap = bounds.gap(makespan(view, order, job.costs))
        assert gap >= -1e-12
        tight += gap < 1e-12
    assert tight > 40


@pytest.mark.parametrize("block", range(4))
def test_floors_are_under_every_schedule_of_several_devices(block: int) -> None:
    tight = 0
    for i in range(25):
        job = step_of_two_devices(random.Random(f"devices {block}/{i}"))
        view = GraphView.of(*job.partitions)
        bounds = find_bounds(view, find_transfers(view).data, job.costs)
        best = best_schedule(job)
        assert bounds.best.seconds <= float(best) + 1e-12
        assert {floor.name for floor in bounds.floors} >= {bounds.best.name}
        tight += bounds.best.seconds >= float(best) - 1e-12
    assert tight > 6


def step_of_two_devices(rng: random.Random) -> Job:
    """Pulls from a server, ops of the worker, pushes to the server, and at times a pull of what was updated."""
    build = Builder()
    available = []
    for i in range(rng.randint(1, 2)):
        build.const(SERVERS[0], f"v{i}")
        available.append(build.pair(f"v{i}", SERVERS[0], WORKER))
    for i in range(rng.randint(1, 2)):
        build.op(WORKER, f"op{i}", rng.sample(available, rng.randint(1, len(available))))
        available.append(f"op{i}")
    for i in range(rng.randint(1, 2)):
        build.op(WORKER, f"grad{i}", [rng.choice(available)])
        pushed = build.pair(f"grad{i}", WORKER, SERVERS[0])
        build.op(SERVERS[0], f"apply{i}", [pushed])
        if rng.random() < 0.4:
            build.op(WORKER, f"next{i}", [build.pair(f"apply{i}", SERVERS[0], WORKER)])
    return with_costs(Job(tuple(build.partitions.values()), {}, {}), rng)


def best_schedule(job: Job) -> Fraction:
    """The least makespan over all sequences of starts, each as early as its resource and fanins allow."""
    graph = oracle_of(job).graph
    resource = {name: data["device"] for name, data in graph.nodes(data=True)}
    for partition in job.partitions:
        for node in partition.node:
            if node.op == "_Recv":
                resource[node.name] = node.attr["send_device"].s.decode() + " " + node.device
    seconds = job.ops | job.transfers
    ticks, parts = whole_parts({n: Fraction(str(seconds.get(n, 0))) for n in graph})
    rest = [n for n in nx.topological_sort(graph) if ticks[n]]
    before = {n: frozenset(nx.ancestors(graph, n)) & set(rest) for n in rest}

    def go(done: dict[str, int], free: dict[str, int], last: int, least: int) -> int:
        now = max(done.values(), default=0)
        if len(done) == len(rest) or now >= least:
            return min(least, now)
        for name in rest:
            if name not in done and before[name] <= done.keys():
                start = max([free.get(resource[name], 0), *(done[p] for p in before[name])])
                end = start + ticks[name]
                if start >= last:
                    more = done | {name: end}, free | {resource[name]: end}, start
                    least = min(least, go(*more, least))
        return least

    return Fraction(go({}, {}, 0, sum(ticks.values()) + 1), parts)
