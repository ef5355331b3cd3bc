"""The memory of traced steps against an executor that counts references."""

import random

import pytest

from tests.full import few_or
from tests.memory_steps import bundle_of
from tests.property.pool_steps import Executed, Executor
from tfwave.bundle.memory import captured_memory
from tfwave.errors import BundleError
from tfwave.memory.step import StepMemory


def replayed(seed: int) -> tuple[Executed, StepMemory] | None:
    done = Executor(random.Random(seed)).execute()
    try:
        return done, captured_memory(bundle_of([done.graph], done.step.stats)).memory
    except BundleError:
        assert done.peak == 0
        return None


@pytest.mark.parametrize("start", range(0, few_or(800, 2000), 100))
def test_a_profile_tells_what_the_pool_saw(start: int) -> None:
    for seed in range(start, start + 100):
        found = replayed(seed)
        if found is None:
            continue
        done, memory = found
        profile = memory.profile
        assert profile.resident == done.resident, seed
        assert profile.peak == done.resident + done.peak, seed
        assert sum(op.net for op in profile.ops) == done.left, seed
        assert max(held for _, held in memory.curve) == profile.peak, seed
        assert memory.curve[-1][1] == done.resident + done.left, seed


def test_tensors_and_ops_say_the_same() -> None:
    for seed in range(200):
        found = replayed(seed)
        if found is None:
            continue
        _, memory = found
        for i, op in enumerate(memory.profile.ops):
            assert op.takes == sum(t.bytes for t in memory.tensors if t.born == i), seed
            assert op.gives == sum(t.bytes for t in memory.tensors if t.dies == i), seed
        assert all(t.dies is None or t.born <= t.read <= t.dies for t in memory.tensors), seed
