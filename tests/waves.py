"""Steps whose memory rises and then falls, for waves."""

import random
from collections.abc import Sequence
from dataclasses import replace

from tests.memory_steps import DEVICE
from tfwave.memory.profile import MemoryProfile, OpMemory
from tfwave.memory.step import StepMemory


def step_of(ops: Sequence[tuple[int, int, int]], resident: int = 0, seconds: float = 1.0) -> StepMemory:
    """Ops as (takes, scratch, gives), each as long, one after another."""
    profile = MemoryProfile(DEVICE, [OpMemory(f"op{i}", *op) for i, op in enumerate(ops)], resident)
    begins = [seconds * i for i in range(len(ops))]
    return StepMemory(profile, (), tuple(begins), tuple(begin + seconds for begin in begins))


def rise_and_fall(forward: int, backward: int, resident: int = 0) -> StepMemory:
    """Ops of a second each that take `backward` bytes, then ops that give `forward`; peaks at their product."""
    return step_of([(backward, 0, 0)] * forward + [(0, 0, forward)] * backward, resident)


def random_step(rng: random.Random) -> StepMemory:
    """Any rise and fall, with gaps and ops that take no time; times are small integers, and so exact."""
    held, ops = 0, list[OpMemory]()
    for number in range(rng.randint(1, 12)):
        takes = rng.choice((0, 1, 5, 20))
        gives = rng.randint(0, held + takes)
        ops.append(OpMemory(f"op{number}", takes, rng.choice((0, 0, 7)), gives))
        held += takes - gives
    begins, ends, now = list[float](), list[float](), 0.0
    for _ in ops:
        begins.append(now)
        ends.append(now + rng.randint(0, 3))
        now = ends[-1] + rng.choice((0, 0, 2)) - rng.choice((0, 0, 1))
        now = max(now, begins[-1])
    beside = [
        sum(ops[other].scratch for other in range(op) if ends[other] > begin)
        for op, begin in enumerate(begins)
    ]
    ops = [replace(op, beside=scratch) for op, scratch in zip(ops, beside, strict=True)]
    return StepMemory(MemoryProfile(DEVICE, ops, rng.randint(0, 30)), (), tuple(begins), tuple(ends))
