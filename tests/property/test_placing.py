"""Places of what a fitted step takes: no op finds another's bytes in its own, whichever op is done first."""

import random

import pytest

from tests.offloaded import whole_fit
from tests.racing import without_place
from tfwave.offload.fit import Policy
from tfwave.offload.placing import in_places, with_places
from tfwave.offload.section import memory_section
from tfwave.plan.fingerprint import NO_GRAPH


@pytest.mark.parametrize("policy", [Policy.GREEDY, Policy.DYMEM])
@pytest.mark.parametrize("seed", range(40))
def test_each_op_finds_its_place(policy: Policy, seed: int) -> None:
    """But for what those use that keep no turn."""
    step, fit = whole_fit(policy, seed)
    plan = with_places(step, memory_section(fit, NO_GRAPH, 1 << 40, fit.forecast.peak))
    ops = {op.node: number for number, op in enumerate(step.ops)}
    free = set(plan.order) - set(plan.chained)
    for race in range(4):
        for name in without_place(step, plan, random.Random(f"{seed} {race}")):
            used = [step.buffers[buffer].uses for buffer in step.used[ops[name]]]
            assert free & {step.ops[use].node for uses in used for use in uses} | free & {name}
    assert all(way.has_room(plan.peak_bytes) for way in in_places(fit))
    assert plan.region_bytes <= plan.peak_bytes - step.resident
