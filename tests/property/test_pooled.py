"""Fits that a pool in one piece can serve."""

import random

import pytest

from tests.offloaded import PIECE, random_step, replayed, whole_fit, whole_pieces
from tfwave.memory.pool.growing import bfc_in_one_region
from tfwave.memory.pool.lives import live_peak
from tfwave.offload.fit import Fit, Policy, away_fits, fit_step, one_by_one
from tfwave.offload.pooled import fit_pool, pool_bytes, run_lives
from tfwave.offload.section import memory_section
from tfwave.offload.step import TrainingStep
from tfwave.offload.turns import FREE_SHARE
from tfwave.plan.fingerprint import NO_GRAPH

SEEDS = range(60)


def tried(step: TrainingStep, usable: int) -> list[Fit]:
    """With less and less held, down to all away that can be; side by side and not."""
    found = [fit for fit in away_fits(step) if fit.forecast.peak <= usable]
    while (fit := fit_step(step, usable)) is not None:
        found += [fit, one_by_one(fit)]
        usable = int(min(usable, fit.forecast.peak) * 0.95)
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_a_fit_is_the_fastest_that_the_pool_serves(seed: int) -> None:
    """And there is one wherever all that can be away leaves room, one op after the other."""
    rng = random.Random(seed)
    step = whole_pieces(random_step(rng, rng.randint(3, 14)))
    away = min(away_fits(step), key=pool_bytes)
    limit = pool_bytes(away) + rng.randint(-4, 30) * PIECE
    usable = max(away.forecast.peak, limit - rng.randint(0, 8) * PIECE)
    fit = fit_pool(step, limit, usable, Policy.GREEDY)
    served = [each for each in tried(step, usable) if pool_bytes(each) <= limit]
    if fit is None:
        assert not served
        return
    assert fit.forecast.peak <= usable
    assert step.resident + bfc_in_one_region(run_lives(fit)).size == pool_bytes(fit) <= limit
    fastest = min((each.seconds for each in served), default=float("inf"))
    assert fit.seconds <= fastest * 1.001  # ops that begin earlier may make others late


@pytest.mark.parametrize("policy", [Policy.GREEDY, Policy.DYMEM])
@pytest.mark.parametrize("seed", range(40))
def test_a_run_holds_no_more_than_promised(policy: Policy, seed: int) -> None:
    step, fit = whole_fit(policy, seed)
    assert live_peak(run_lives(fit)) + step.resident <= fit.forecast.peak * (1 + FREE_SHARE)
    alone = one_by_one(fit)
    held = max(replayed(step, memory_section(alone, NO_GRAPH, 1 << 40, alone.forecast.peak)))
    runs = live_peak(run_lives(alone)) + step.resident
    assert runs <= held * (1 + FREE_SHARE)
    assert alone.forecast.moves or runs >= held * (1 - FREE_SHARE)
    assert not any(alone.forecast.turns.beside)


def test_what_lies_apart_counts() -> None:
    """In some steps that hold little enough in all, nothing large enough is free in one piece."""
    apart = 0
    for seed in SEEDS:
        step = whole_pieces(random_step(random.Random(seed), 12))
        apart += any(pool_bytes(fit) > fit.forecast.peak for fit in away_fits(step))
    assert apart > 5
