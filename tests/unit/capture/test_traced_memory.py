"""A traced step's memory: when its ops ran, and the tensors behind what they took and gave."""

from tfwave.capture.memory.traced import traced_memory
from tfwave.memory.profile import MemoryProfile, OpMemory
from tfwave.memory.step import Tensor
from tfwave.runtime.trace.memory import Allocation, MemoryTrace
from tfwave.runtime.trace.xplane import OpRun

STEP = 3
NODES = {"a", "b", "c"}


def run(node: str, at: float, seconds: float) -> OpRun:
    return OpRun(STEP, node, "NoOp", at, seconds)


def test_times_count_from_the_first_op() -> None:
    """``b`` is known by what it allocated only."""
    ops = run("a", 5.0, 2.0), run("other", 4.0, 9.0), run("c", 9.0, 1.5)
    memory = traced_memory(MemoryTrace(ops, (Allocation(STEP, "b", 4, 8.0, 9.5),), ()), NODES)
    assert (memory.begins, memory.ends) == ((0.0, 3.0, 4.0), (2.0, 3.0, 5.5))
    assert [op.node for op in memory.profile.ops] == ["a", "b", "c"]


def test_what_lives_on_is_a_tensor_and_what_does_not_is_scratch() -> None:
    ops = run("a", 0.0, 1.0), run("b", 10.0, 1.0), run("c", 20.0, 1.0)
    made = (
        Allocation(STEP, "c", 30, 20.5),
        Allocation(STEP, "a", 50, 0.5, 12.0),
        Allocation(STEP, "b", 8, 10.5, 10.6),
        Allocation(STEP, "c", 64, 20.6),
    )
    memory = traced_memory(MemoryTrace(ops, made, ((20.7, 64),)), NODES, "CPU", 100)
    assert memory.tensors == (Tensor(("a",), 50, 0, 1, 1), Tensor(("c",), 30, 2, 2, None))
    taken = [OpMemory("a", 50, 0, 0), OpMemory("b", 0, 8, 50), OpMemory("c", 30, 64, 0)]
    assert memory.profile == MemoryProfile("CPU", taken, 100)


def test_what_is_freed_before_its_op_ends_is_scratch_whatever_begins_meanwhile() -> None:
    ops = run("a", 0.0, 10.0), run("b", 2.0, 1.0), run("c", 20.0, 1.0)
    made = Allocation(STEP, "a", 64, 1.0, 9.0), Allocation(STEP, "a", 50, 1.0, 10.5)
    memory = traced_memory(MemoryTrace(ops, made, ()), NODES)
    assert memory.tensors == (Tensor(("a",), 50, 0, 1, 1),)
    assert [op.scratch for op in memory.profile.ops] == [64, 0, 0]


def test_a_new_value_is_held_beside_the_old_one_until_that_is_freed() -> None:
    ops = run("a", 0.0, 1.0), run("b", 10.0, 1.0), run("c", 20.0, 1.0)
    trace = MemoryTrace(ops, (Allocation(STEP, "a", 64, 0.5),), ((12.0, 64),))
    assert traced_memory(trace, NODES).tensors == (Tensor(("a",), 64, 0, 1, 1),)


def test_nothing_was_traced() -> None:
    memory = traced_memory(MemoryTrace((), (), ()), NODES)
    assert (memory.begins, memory.tensors, memory.profile.peak) == ((), (), 0)
