"""Burst plans of random models, against all there are to choose from."""

import math
import random

import pytest

from tests.property.burst_oracle import CROSSED, EDGES_OF_BLOCKS, Oracle, chain, random_costs
from tests.property.burst_trials import FAMILIES, LIMITS, budget, finish, keeps_on_edges, tried
from tfwave.burst import job_limit
from tfwave.burst.costs import LayerCosts
from tfwave.burst.job_limit import fastest_together
from tfwave.burst.search import fastest
from tfwave.burst.section import work_of
from tfwave.errors import PlanError

COUNTS = ((1, 2, 4), (1, 2, 3), (1, 3, 4))
TRIALS = 30
"""Of each family; `tools/bench/bursts/burst_planner.py` makes a thousand."""


@pytest.mark.parametrize("seed", range(TRIALS))
@pytest.mark.parametrize("family", FAMILIES)
def test_no_plan_within_the_limit_is_faster(family: str, seed: int) -> None:
    found = tried(family, seed)
    assert found.is_optimal
    assert found.is_as_said
    assert found.keeps_limit
    assert found.keeps_capacity


@pytest.mark.parametrize("seed", [9, 17, 44, 49])
def test_a_block_that_ends_with_the_one_around_it_is_as_far_as_its_branch(seed: int) -> None:
    """In each of these a plan that forgot it would seem faster than all there are."""
    rng = random.Random(seed)
    costs = random_costs(rng, EDGES_OF_BLOCKS[5], rng.choice(COUNTS))
    limit = rng.choice(LIMITS)
    assert fastest(costs, limit).seconds == pytest.approx(Oracle(costs, limit).fastest(), rel=1e-9)


def any_edges(rng: random.Random) -> tuple[tuple[int, int], ...]:
    """Each layer reads some of those before it, and the last one all that nobody reads."""
    last = rng.randint(3, 6)
    found = {
        (before, here)
        for here in range(1, last)
        for before in rng.sample(range(here), min(here, rng.randint(1, 2)))
    }
    return tuple(sorted(found | {(n, last) for n in range(last) if all(before != n for before, _ in found)}))


def test_any_branches_are_planned_as_they_run_or_refused() -> None:
    planned, refused = 0, 0
    for seed in range(200):
        rng = random.Random(seed)
        costs, limit = random_costs(rng, any_edges(rng), rng.choice(COUNTS)), rng.choice(LIMITS)
        if Oracle(costs, limit).is_crossed():
            refused += 1
            with pytest.raises(PlanError, match="the search takes branches that share no layer"):
                fastest(costs, limit)
            continue
        planned += 1
        found = fastest(costs, limit)
        assert finish(costs, found) <= found.seconds * (1 + 1e-9)
        assert limit == math.inf or keeps_on_edges(costs, found, limit * costs.alone * (1 + 1e-6))
    assert min(planned, refused) > 50


@pytest.mark.parametrize("edges", CROSSED)
def test_branches_that_cross_are_refused(edges: tuple[tuple[int, int], ...]) -> None:
    with pytest.raises(PlanError, match=r"'layer3' is on two branches that leave 'layer0'"):
        fastest(random_costs(random.Random(1), edges, (1, 2)), 2)


@pytest.mark.parametrize("seed", range(30))
def test_of_branches_that_meet_before_all_do_no_plan_is_faster(seed: int) -> None:
    rng = random.Random(seed)
    edges = any_edges(rng)
    costs, limit = random_costs(rng, edges, (1, *rng.sample((2, 3), 1))), rng.choice(LIMITS)
    oracle = Oracle(costs, limit)
    if not oracle.is_crossed():
        assert fastest(costs, limit).seconds == pytest.approx(oracle.fastest(), rel=1e-9)


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
