"""The offset with which two waves fit into memory."""

import pytest

from tests.steps import Builder
from tests.unit.test_tick_tock import initialised
from tests.waves import rise_and_fall, step_of
from tfwave.errors import PlanError
from tfwave.graph.item import GraphItem
from tfwave.graph.verify import verify
from tfwave.memory.profile import MemoryProfile, OpMemory
from tfwave.memory.step import StepMemory
from tfwave.memory.waves import room
from tfwave.waves.fit import fitting_offset
from tfwave.waves.rewrite.training import Training


def chain(length: int) -> tuple[Training, list[str]]:
    """So many layers, then the loss, then as many ops of the backward pass; and their names in that order."""
    build = Builder()
    names: list[str] = []
    for i in range(length):
        build.handle(f"w{i}")
        build.read(f"read{i}", f"w{i}")
        names.append(build.add(f"layer{i}", f"read{i}", *names[-1:]))
    names.append(build.add("loss", *names))
    for i in reversed(range(length)):
        names.append(build.add(f"back{i}", names[-1], f"layer{i}"))
        build.update(f"update{i}", f"w{i}", names[-1])
    build.node("train", "NoOp", *(f"^update{i}" for i in range(length)))
    item: GraphItem = initialised(build).item("loss", "train")
    return Training.of(item, verify(item)), names


def traced(names: list[str], memory: StepMemory) -> StepMemory:
    """The same step with ops of these names."""
    ops = [OpMemory(n, o.takes, o.scratch, o.gives) for n, o in zip(names, memory.profile.ops, strict=True)]
    profile = MemoryProfile(memory.profile.device, ops, memory.profile.resident)
    return StepMemory(profile, (), memory.begins, memory.ends)


def limit_for(peak: int) -> int:
    """The least limit that has room for so many bytes of two waves."""
    return next(limit for limit in range(peak, 2 * peak) if room(limit, 2) >= peak)


@pytest.mark.parametrize("length", [4, 9])
def test_the_more_memory_the_earlier(length: int) -> None:
    """With just the memory that a later wave needs, it is that late, or earlier where that takes no more."""
    training, names = chain(length)
    takes = [1, *reversed(range(1, length + 1))]
    ops = [(taken, 0, 0) for taken in takes] + [(0, 0, given) for given in [*range(1, length), length + 1]]
    memory = traced(names, step_of(ops, 10))
    found: list[float] = []
    for done in range(length + 1):
        found.append(fitting_offset(training, memory, limit_for(by_hand(memory, length + 1 + done))))
    assert fitting_offset(training, memory, 10**6) == 0.0
    assert len(set(found)) > 2
    for done in range(length + 1):
        peak = by_hand(memory, length + 1 + done)
        first = next(d for d in range(length + 1) if by_hand(memory, length + 1 + d) <= peak)
        assert found[done] == first / length


def by_hand(memory: StepMemory, shift: int) -> int:
    """Two curves of ops of a second each, so many ops apart, op by op."""
    ops, held, curve = memory.profile.ops, 0, []
    for op in ops:
        curve.append((held + op.takes + op.scratch, held + op.net))
        held += op.net
    first, second = [0] * (len(ops) + shift), [0] * (len(ops) + shift)
    for place, (during, _) in enumerate(curve):
        first[place], second[place + shift] = during, during
    return 2 * memory.profile.resident + max(map(sum, zip(first, second, strict=True)))


def test_what_fits_nowhere_is_said() -> None:
    training, names = chain(3)
    memory = traced(names, rise_and_fall(4, 3, 100))
    with pytest.raises(PlanError, match=r"two waves hold \d+ bytes at the least.*of the limit of 200 bytes"):
        fitting_offset(training, memory, 200)


def test_a_trace_without_the_end_of_the_forward_pass_is_refused() -> None:
    training, names = chain(3)
    memory = traced([f"other{name}" for name in names], rise_and_fall(4, 3))
    with pytest.raises(PlanError, match="does not have 'loss', where the forward pass ends"):
        fitting_offset(training, memory, 1000)
