"""The offset with which two waves fit into memory."""

from dataclasses import replace

import pytest

from tests.steps import FLOAT, Builder
from tests.unit.waves.test_tick_tock import initialised
from tests.waves import rise_and_fall, step_of
from tfwave.errors import PlanError
from tfwave.graph.item import GraphItem
from tfwave.graph.verify import verify
from tfwave.memory.profile import MemoryProfile, OpMemory
from tfwave.memory.slots import room
from tfwave.memory.step import StepMemory, Tensor
from tfwave.rewrite.waves.training import Training
from tfwave.sizes import in_words
from tfwave.waves.fit import fitting_offset, least_room, pool_needs, wave_peaks, wave_starts


def chain(length: int) -> tuple[Training, list[str]]:
    """So many layers, then the loss, then as many ops of the backward pass; and their names in that order."""
    item, names = chain_item(length)
    return Training.of(item, verify(item)), names


def chain_item(length: int) -> tuple[GraphItem, list[str]]:
    """Its graph, and the names."""
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
    return initialised(build).item("loss", "train"), names


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
        found.append(fitting_offset(training, memory, limit_for(unpaced(memory, length + 1 + done))))
    assert fitting_offset(training, memory, 10**6) == 0.0
    assert len(set(found)) > 2
    for done in range(length + 1):
        peak = unpaced(memory, length + 1 + done)
        first = next(d for d in range(length + 1) if unpaced(memory, length + 1 + d) <= peak)
        assert found[done] == first / length


def test_gradients_and_what_else_the_pool_holds_count() -> None:
    """Each gradient lies there twice: from call to call, and until the second wave has its own."""
    training, names = chain(3)
    plain = traced(names, rise_and_fall(4, 3, 100))
    tensors = [
        Tensor(("back2:0",), 5, 4, 5, 6),
        Tensor(("inner:0", "back1:0", "back1:1"), 7, 4, 5, 6),
        Tensor(("layer1:0",), 11, 1, 2, 3),
    ]
    memory = StepMemory(plain.profile, tuple(tensors), plain.begins, plain.ends)
    offsets = [0.0, 0.3, 0.5, 1.0]
    peaks = [by_hand(plain, 4 + round(3 * offset)) for offset in offsets]
    assert wave_peaks(training, plain, offsets) == tuple(peaks)
    assert wave_peaks(training, memory, offsets, others=1000) == tuple(peak + 1024 for peak in peaks)
    rooms = [unpaced(plain, 4 + round(3 * offset)) + 24 + 11 for offset in offsets]
    assert [least_room(training, memory, offset) for offset in offsets] == rooms
    assert fitting_offset(training, memory, limit_for(rooms[0])) == 0.0
    with pytest.raises(PlanError, match=f"two waves hold {in_words(rooms[-1] - 11 + 1000)} at the least"):
        fitting_offset(training, memory, limit_for(rooms[-1] + 1000) - 1, others=1000)


def test_there_is_room_for_the_largest_piece() -> None:
    training, names = chain(3)
    plain = traced(names, step_of([(5, 0, 0)] * 4 + [(0, 9, 5)] * 3))
    tensors = tuple([Tensor((f"layer{size}:0",), size, 0, 1, 2) for size in (2, 5)])
    large = (*tensors, Tensor(("loss:0",), 12, 0, 1, 2))
    alike, other = (StepMemory(plain.profile, t, plain.begins, plain.ends) for t in (tensors, large))
    assert [memory.largest_piece for memory in (plain, alike, other)] == [9, 9, 12]
    least = unpaced(plain, 7)
    for memory, piece in ((plain, 9), (other, 12)):
        assert fitting_offset(training, memory, limit_for(least + piece)) == 1.0
        with pytest.raises(PlanError, match=f"two waves hold {least} bytes at the least"):
            fitting_offset(training, memory, limit_for(least + piece) - 1)


def test_a_wave_starts_after_the_share_of_nodes_that_the_gate_counts() -> None:
    training, names = chain(5)
    memory = traced(names, rise_and_fall(6, 5))
    offsets = [0.0, 0.3, 0.5, 0.7, 1.0]
    assert wave_starts(training, memory, offsets) == tuple(6 + round(5 * offset) for offset in offsets)


def unpaced(memory: StepMemory, shift: int) -> int:
    """The peak, and what one step holds at the most once so many ops are done."""
    held, after = 0, [0]
    for op in memory.profile.ops:
        held += op.net
        after.append(held)
    later = memory.profile.ops[shift:]
    most = max([after[shift], *(h + op.most for h, op in zip(after[shift:], later, strict=False))])
    return memory.profile.peak + memory.profile.resident + most


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


@pytest.mark.parametrize("op", ["Identity", "Reshape"])
def test_gradients_count_where_the_optimizer_has_left_out_the_views_that_they_are(op: str) -> None:
    """The program's graph hands them on through a view, and the trace has what lies under that."""
    item, names = chain_item(2)
    for node in [node for node in item.graph.node if node.name.startswith("update")]:
        shape = ["loss"] if op == "Reshape" else []
        item.graph.node.add(name=f"{node.name}/view", op=op, input=[node.input[1], *shape], attr={"T": FLOAT})
        node.input[1] = f"{node.name}/view"
    step = step_of([(1, 0, 0)] * len(names), 0)
    tensors = [Tensor((f"{name}:0",), 1000 + place, place, place, None) for place, name in enumerate(names)]
    memory = replace(traced(names, step), tensors=tuple(tensors))
    found = pool_needs(Training.of(item, verify(item)), memory)
    assert found.gradient_bytes == sum(1000 + names.index(name) for name in ("back0", "back1"))
