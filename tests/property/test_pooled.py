"""Fits that a pool in one piece can serve."""

import random

import pytest

from tests.offloaded import random_step
from tests.property.test_planned_lives import PIECE, whole_pieces
from tfwave.memory.pool.growing import bfc_in_one_region
from tfwave.offload.fit import Policy, away_fits, fit_step
from tfwave.offload.placed import planned_lives
from tfwave.offload.pooled import fit_pool, pool_bytes
from tfwave.offload.section import memory_section
from tfwave.plan.fingerprint import NO_GRAPH

SEEDS = range(60)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_fit_is_one_that_the_pool_serves(seed: int) -> None:
    """And there is one wherever all that can be away leaves room; it is the fastest, if that one is served."""
    rng = random.Random(seed)
    step = whole_pieces(random_step(rng, rng.randint(3, 14)))
    away = min(away_fits(step), key=pool_bytes)
    limit = pool_bytes(away) + rng.randint(-4, 30) * PIECE
    usable = max(away.forecast.peak, limit - rng.randint(0, 8) * PIECE)
    fit, first = fit_pool(step, limit, usable, Policy.GREEDY), fit_step(step, usable)
    if limit >= pool_bytes(away):
        assert fit is not None
    if fit is not None:
        plan = memory_section(fit, NO_GRAPH, usable, usable)
        assert step.resident + bfc_in_one_region(planned_lives(step, plan)).size == pool_bytes(fit) <= limit
        assert fit.forecast.peak <= usable
    if first is not None and pool_bytes(first) <= limit:
        assert fit is not None
        assert fit.forecast.moves == first.forecast.moves


def test_what_lies_apart_counts() -> None:
    """In some steps that hold little enough in all, nothing large enough is free in one piece."""
    apart = 0
    for seed in SEEDS:
        step = whole_pieces(random_step(random.Random(seed), 12))
        apart += any(pool_bytes(fit) > fit.forecast.peak for fit in away_fits(step))
    assert apart > 5
