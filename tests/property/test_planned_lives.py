"""What a step takes that runs as planned, against a replay of the plan op by op."""

import random
from dataclasses import replace

import pytest

from tests.offloaded import PIECE, random_step, replayed, whole_pieces
from tests.racing import most_held
from tfwave.memory.pool.lives import live_peak
from tfwave.offload.fit import Policy, fit_step, least_limit
from tfwave.offload.placed import planned_lives
from tfwave.offload.section import memory_section
from tfwave.offload.turns import FREE_SHARE
from tfwave.plan.fingerprint import NO_GRAPH


@pytest.mark.parametrize("policy", [Policy.GREEDY, Policy.DYMEM])
@pytest.mark.parametrize("seed", range(40))
def test_it_holds_as_much_as_the_plan_does(policy: Policy, seed: int) -> None:
    rng = random.Random(seed)
    step = whole_pieces(random_step(rng, rng.randint(2, 12)))
    least = least_limit(step)
    limit = least + rng.randint(0, 40 * PIECE)
    fit = fit_step(step, 1 << 40 if policy is Policy.DYMEM else limit, policy)
    assert fit is not None
    plan = memory_section(fit, NO_GRAPH, 1 << 40, least)
    held = max(replayed(step, plan))
    planned = live_peak(planned_lives(step, plan)) + step.resident
    assert held <= planned <= plan.peak_bytes
    assert most_held(step, plan, rng) <= planned + FREE_SHARE * plan.peak_bytes
    one_by_one = replace(plan, beside=())
    assert live_peak(planned_lives(step, one_by_one)) + step.resident == held
