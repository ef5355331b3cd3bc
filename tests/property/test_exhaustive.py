"""How near to the best of all orders the policies come; run with -s to see the figures."""

import random
import statistics
from collections.abc import Callable, Sequence
from itertools import permutations

import pytest

from tests.full import few_or
from tests.graphs import SERVERS, WORKER, Builder, Job
from tests.property.oracle import Oracle, oracle_of
from tfwave.order.bounds import find_bounds
from tfwave.order.registry import find_policy
from tfwave.sim.makespan import makespan

GRAPHS = few_or(80, 170)
FAMILIES = {
    "each parameter read alone too": ("all", True),
    "layers on layers": ("all", False),
    "joins of parameters": ("recvs", False),
}
"""What ops read, and whether each parameter has an op of its own."""


def model(rng: random.Random, reads: str, own_op: bool) -> Job:
    """Up to 6 parameters over one channel; ops that need one to three of what is there."""
    build = Builder()
    recvs = [build.pair(f"v{i}", SERVERS[0], WORKER, send=False) for i in range(rng.randint(3, 6))]
    available = list(recvs)
    for i in range(rng.randint(4, 12)):
        read = rng.sample(available if reads == "all" else recvs, rng.randint(1, 3))
        available.append(build.op(WORKER, f"op{i}", read))
    unread = [r for r in recvs if not any(r in n.input for n in build.partitions[WORKER].node)]
    for recv in recvs if own_op else unread:
        build.op(WORKER, f"use_{recv}", [recv])
    ops = {n.name: rng.randint(1, 100) / 100 for n in build.partitions[WORKER].node if n.op != "_Recv"}
    sizes = {recv: rng.randint(1, 100) / 100 for recv in recvs}
    return Job(tuple(build.partitions.values()), ops, sizes).renumbered(rng)


def hundredths(oracle: Oracle, recvs: Sequence[str]) -> Callable[[Sequence[str]], int]:
    """The makespan of any order, for one channel and transfers that wait for nothing.

    When a transfer arrives, the work that it was the last to be needed for can run; one compute resource that
    never idles takes the same time in whatever sequence it does that work.
    """
    bit = {recv: 1 << i for i, recv in enumerate(recvs)}
    size = {recv: round(oracle.seconds[recv] * 100) for recv in recvs}
    needs = {op: sum(bit[r] for r in oracle.dep[op]) for op in oracle.ops}
    work = {op: round(oracle.seconds[op] * 100) for op in oracle.ops}
    possible = [sum(work[op] for op in needs if not needs[op] & ~have) for have in range(1 << len(recvs))]

    def makespan_of(order: Sequence[str]) -> int:
        have = arrived = end = 0
        for recv in order:
            arrived += size[recv]
            end = max(end, arrived) + possible[have | bit[recv]] - possible[have]
            have |= bit[recv]
        return end

    return makespan_of


@pytest.mark.parametrize("family", FAMILIES)
def test_tac_is_near_the_best_of_all_orders(family: str) -> None:
    ratios: dict[str, list[float]] = {
        "exact": [],
        "search": [],
        "tac": [],
        "tic": [],
        "fifo": [],
        "random": [],
        "printed comparator": [],
    }
    for i in range(GRAPHS):
        job = model(random.Random(f"exhaustive {i}"), *FAMILIES[family])
        view, transfers = job.view()
        oracle = oracle_of(job)
        of = hundredths(oracle, sorted(oracle.recvs))
        every = [of(order) for order in permutations(oracle.recvs)]
        best = min(every)
        for policy in ("exact", "search", "tac", "tic", "fifo"):
            order = find_policy(policy)(view, transfers, job.costs)
            took = of([ranked.transfer.node for ranked in order])
            assert round(makespan(view, [r.transfer for r in order], job.costs) * 100, 6) == took
            ratios[policy].append(took / best)
        ratios["random"].append(statistics.fmean(every) / best)
        ratios["printed comparator"].append(of(oracle.tac(printed=True)) / best)
        bounds = find_bounds(view, transfers, job.costs)
        assert bounds.lower_seconds <= bounds.best.seconds + 1e-12
        assert bounds.best.seconds * 100 - 1e-6 <= best <= max(every) <= bounds.upper_seconds * 100 + 1e-6
    mean = {name: statistics.fmean(found) for name, found in ratios.items()}
    print(family, {name: (round(mean[name], 4), round(max(found), 3)) for name, found in ratios.items()})  # noqa: T201
    assert mean["exact"] == max(ratios["exact"]) == 1
    assert mean["search"] <= 1.005
    assert mean["tac"] <= 1.05
    assert mean["search"] < mean["tac"] < mean["tic"] < mean["random"] < mean["printed comparator"]
    assert mean["tac"] - 1 < (mean["random"] - 1) / 3
    assert mean["tac"] - 1 < (mean["printed comparator"] - 1) / 5
