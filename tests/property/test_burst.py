"""Burst plans of random models, against all there are to choose from."""

import itertools
import math
import random
from collections.abc import Sequence

import numpy as np
import pytest

from tests.property.burst_oracle import EDGES_OF_BLOCKS, Oracle, chain, random_costs
from tfwave.burst import job_limit
from tfwave.burst.costs import LayerCosts
from tfwave.burst.job_limit import fastest_together
from tfwave.burst.search import Choice, fastest
from tfwave.burst.section import work_of

LIMITS = (1.0, 1.5, 2.5, 5.0, math.inf)
COUNTS = ((1, 2, 4), (1, 2, 3), (1, 3, 4), (1, 2, 3, 4))


def kinds(costs: LayerCosts, choice: Choice) -> tuple[int, ...]:
    return tuple(costs.counts.index(count) for count in choice.count)


@pytest.mark.parametrize("seed", range(40))
def test_no_plan_of_a_chain_is_faster(seed: int) -> None:
    rng = random.Random(seed)
    costs = random_costs(rng, chain(rng.randint(2, 5)), rng.choice(COUNTS))
    limit = rng.choice(LIMITS)
    found = fastest(costs, limit)
    oracle = Oracle(costs, limit)
    assert found.seconds == pytest.approx(oracle.fastest(), rel=1e-9)
    assert found.seconds == pytest.approx(oracle.seconds(kinds(costs, found)), rel=1e-9)
    assert (work_of(costs, found) <= limit * costs.alone * (1 + 1e-6)).all() or limit == math.inf


@pytest.mark.parametrize("edges", EDGES_OF_BLOCKS)
@pytest.mark.parametrize("seed", range(4))
def test_no_plan_of_a_block_is_faster(edges: tuple[tuple[int, int], ...], seed: int) -> None:
    rng = random.Random(seed)
    costs = random_costs(rng, edges, rng.choice(COUNTS[:3]))
    limit = rng.choice(LIMITS)
    found = fastest(costs, limit)
    oracle = Oracle(costs, limit)
    assert found.seconds == pytest.approx(oracle.fastest(), rel=1e-9)
    assert found.seconds == pytest.approx(oracle.seconds(kinds(costs, found)), rel=1e-9)
    assert capacity_is_kept(costs, found)
    assert finish(costs, found) <= found.seconds * (1 + 1e-9)


@pytest.mark.parametrize("seed", [9, 17, 44, 49])
def test_a_block_that_ends_with_the_one_around_it_is_as_far_as_its_branch(seed: int) -> None:
    """In each of these a plan that forgot it would seem faster than all there are."""
    rng = random.Random(seed)
    costs = random_costs(rng, EDGES_OF_BLOCKS[5], rng.choice(COUNTS[:3]))
    limit = rng.choice(LIMITS)
    assert fastest(costs, limit).seconds == pytest.approx(Oracle(costs, limit).fastest(), rel=1e-9)


def capacity_is_kept(costs: LayerCosts, found: Choice) -> bool:
    places = zip(found.first, found.count, strict=True)
    return all(first + count <= costs.counts[-1] for first, count in places)


def finish(costs: LayerCosts, found: Choice) -> float:
    """When the last layer has run, if each waits for what it reads and for nothing else."""
    level = kinds(costs, found)
    used = [range(first, first + count) for first, count in zip(found.first, found.count, strict=True)]
    apart = [used[a][0] != used[b][0] for a, b in costs.edges]
    done: list[float] = []
    for here in range(len(costs.names)):
        begins = [0.0]
        for edge, (before, reader) in enumerate(costs.edges):
            if reader == here:
                moved = (costs.far if apart[edge] else costs.near)[edge, level[before], level[here]]
                begins.append(done[before] + moved)
        done.append(max(begins) + costs.own[here, level[here]])
    return done[-1]


@pytest.mark.parametrize("seed", range(60))
def test_no_plan_within_the_limit_of_the_job_is_faster(seed: int) -> None:
    rng = random.Random(seed)
    costs = random_costs(rng, chain(rng.randint(2, 5)), rng.choice(COUNTS))
    limit = rng.choice(LIMITS[:-1])
    found, bound = fastest_together(costs, limit)
    every = itertools.product(range(len(costs.counts)), repeat=len(costs.names))
    best = min(
        seconds for seconds, work in (both(costs, plan) for plan in every) if work <= budget(costs, limit)
    )
    assert found.seconds == pytest.approx(best, rel=1e-9)
    assert bound == pytest.approx(best, rel=1e-9)
    assert work_of(costs, found).sum() <= budget(costs, limit)


def budget(costs: LayerCosts, limit: float) -> float:
    return limit * float(costs.alone.sum()) * (1 + 1e-8)


def both(costs: LayerCosts, plan: Sequence[int]) -> tuple[float, float]:
    seconds = np.array([costs.own[layer, kind] for layer, kind in enumerate(plan)])
    seconds[1:] += [costs.near[n, plan[n], plan[n + 1]] for n in range(len(plan) - 1)]
    return float(seconds.sum()), float((seconds * np.array(costs.counts)[list(plan)]).sum())


def test_with_too_many_ways_the_first_plan_stands_and_the_bound_says_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gaps = []
    for seed in range(20):
        costs = random_costs(random.Random(seed), chain(6), (1, 2, 4))
        best = fastest_together(costs, 1.5)[0].seconds
        with monkeypatch.context() as patch:
            patch.setattr(job_limit, "MOST_WAYS", 0)
            found, bound = fastest_together(costs, 1.5)
        assert bound <= best * (1 + 1e-9)
        assert best <= found.seconds * (1 + 1e-9)
        assert work_of(costs, found).sum() <= budget(costs, 1.5)
        gaps.append(found.seconds / bound - 1)
    assert max(gaps) > 1e-6


def test_scaled_times_give_the_same_plan() -> None:
    costs = random_costs(random.Random(3), EDGES_OF_BLOCKS[-1], (1, 2, 4))
    scaled = LayerCosts(costs.names, costs.counts, costs.own * 8, costs.edges, costs.near * 8, costs.far * 8)
    assert fastest(scaled, 2).count == fastest(costs, 2).count
    assert fastest(scaled, 2).first == fastest(costs, 2).first
