"""What a step takes that runs as planned, against a replay of the plan op by op."""

import random
from dataclasses import replace

import pytest

from tests.offloaded import replayed, whole_fit
from tests.racing import most_held
from tfwave.memory.pool.lives import live_peak
from tfwave.offload.fit import Policy
from tfwave.offload.planned import planned_lives
from tfwave.offload.section import memory_section
from tfwave.offload.turns import FREE_SHARE
from tfwave.plan.fingerprint import NO_GRAPH


@pytest.mark.parametrize("policy", [Policy.GREEDY, Policy.DYMEM])
@pytest.mark.parametrize("seed", range(40))
def test_it_holds_as_much_as_the_plan_does(policy: Policy, seed: int) -> None:
    step, fit = whole_fit(policy, seed)
    plan = memory_section(fit, NO_GRAPH, 1 << 40, fit.forecast.peak)
    held = max(replayed(step, plan))
    planned = live_peak(planned_lives(step, plan)) + step.resident
    assert held <= planned <= plan.peak_bytes
    assert most_held(step, plan, random.Random(seed)) <= planned + FREE_SHARE * plan.peak_bytes
    one_by_one = replace(plan, beside=())
    assert live_peak(planned_lives(step, one_by_one)) + step.resident == held
