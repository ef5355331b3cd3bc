"""Ops of a fitted step that run side by side: the promise holds in whatever order they are done."""

import random

import numpy as np
import pytest

from tests.full import few_or
from tests.offloaded import random_step
from tests.racing import most_held
from tfwave.offload import turns
from tfwave.offload.fit import Fits, Policy
from tfwave.offload.held import Held
from tfwave.offload.layout import Layout
from tfwave.offload.section import memory_section
from tfwave.offload.turns import FREE_SHARE
from tfwave.plan.fingerprint import NO_GRAPH
from tfwave.rewrite.fitted.beside import awaited, last_beside

RUNS = few_or(10, 30)


@pytest.mark.parametrize("policy", [Policy.GREEDY, Policy.DYMEM])
@pytest.mark.parametrize("seed", range(60))
def test_no_run_holds_more_than_promised(policy: Policy, seed: int) -> None:
    rng = random.Random(seed)
    step = random_step(rng, rng.randint(3, 12))
    least, most = Fits(step).least_limit, Layout.of(step, tuple(range(len(step.ops))), 3).peak
    limit = least + round(rng.random() * 1.2 * max(0, most - least))
    fit = Fits(step).within(1 << 40 if policy is Policy.DYMEM else limit, policy)
    assert fit is not None
    plan = memory_section(fit, NO_GRAPH, 1 << 40, least)
    free = FREE_SHARE * plan.peak_bytes  # what keeps no turn holds that at most
    for _ in range(RUNS):
        assert most_held(step, plan, rng) <= plan.peak_bytes + free


def test_what_no_copy_has_taken_away_yet_counts() -> None:
    """Where the second of two ops begins before the first is done, which waits for a copy of 3 bytes."""
    held = Held(during=np.array([10, 10]), taken=np.array([5, 5]), leaving=np.array([3, 0]))
    assert turns._beside(held, np.array([0, 1]), [1, 1], 18) == ([1, 1], 18)
    assert turns._beside(held, np.array([0, 1]), [1, 1], 17) == ([0, 1], 10)


@pytest.mark.parametrize("seed", range(40))
def test_an_op_begins_when_all_before_those_beside_it_are_done(seed: int) -> None:
    """Each waits for few, which have waited for the others; and two that may run at once are told so from both."""
    rng = random.Random(seed)
    beside = [0]
    while len(beside) < 30:
        beside.append(rng.randint(0, min(4, beside[-1] + 1)))
    done: list[set[int]] = []
    for index in range(30):
        done.append(set(awaited(beside, index)).union(*(done[source] for source in awaited(beside, index))))
        assert done[index] == set(range(index - beside[index]))
    last = last_beside(beside, 30)
    at_once = {(one, other) for other in range(30) for one in range(other - beside[other], other)}
    assert at_once == {(one, other) for one in range(30) for other in range(one + 1, last[one] + 1)}
    assert set(awaited(beside, 30)).union(*(done[source] for source in awaited(beside, 30))) == set(range(30))
    assert last_beside((), 3) == [0, 1, 2]
