"""What a step takes that runs as planned, against a replay of the plan op by op."""

import random
from dataclasses import replace

import pytest

from tests.offloaded import random_step, replayed
from tfwave.memory.pool.lives import live_peak
from tfwave.offload.fit import Policy, fit_step, least_limit
from tfwave.offload.placed import planned_lives
from tfwave.offload.section import memory_section
from tfwave.offload.step import TrainingStep
from tfwave.plan.fingerprint import NO_GRAPH

PIECE = 256


def whole_pieces(step: TrainingStep) -> TrainingStep:
    """The same with bytes that an allocator gives as they are, and nothing that outlives the step."""
    buffers = [replace(b, bytes=b.bytes * PIECE, stays=False) for b in step.buffers]
    ops = [replace(op, scratch=op.scratch * PIECE) for op in step.ops]
    return TrainingStep(step.device, tuple(ops), tuple(buffers), step.resident * PIECE)


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
    assert live_peak(planned_lives(step, plan)) + step.resident == max(replayed(step, plan))
