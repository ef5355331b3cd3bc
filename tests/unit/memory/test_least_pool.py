"""The pool that a step needs: what its ops ask for when, and how much larger than its peak the pool must be."""

import pytest

from tfwave.memory.pool.replay import replay
from tfwave.memory.pool.step import least_pool, step_events
from tfwave.memory.pool.trace import Allocate, Free
from tfwave.memory.profile import MemoryProfile, OpMemory
from tfwave.memory.step import StepMemory, Tensor

KB = 1024


def step(*ops: tuple[int, int, int | None, float, float], resident: int = 0) -> StepMemory:
    """Each op: KiB of its tensor and of its scratch, the op after which the tensor dies, its begin and its end."""
    tensors = [
        Tensor((f"op{i}:0",), KB * size, i, i, dies) for i, (size, _, dies, _, _) in enumerate(ops) if size
    ]
    runs = [OpMemory(f"op{i}", KB * size, KB * scratch, 0) for i, (size, scratch, *_) in enumerate(ops)]
    times = [(begin, end) for *_, begin, end in ops]
    profile = MemoryProfile("", runs, KB * resident)
    return StepMemory(profile, tuple(tensors), tuple(b for b, _ in times), tuple(e for _, e in times))


def test_an_op_holds_its_scratch_until_it_ends() -> None:
    """The second begins beside the first, the third when both are done."""
    memory = step((4, 8, 1, 0.0, 2.0), (2, 0, 2, 1.0, 3.0), (0, 1, None, 3.0, 3.0), resident=3)
    assert list(step_events(memory)) == [
        *(Allocate("tensor 0", 0, 4 * KB), Allocate("scratch 0", 0, 8 * KB)),
        Allocate("tensor 1", 0, 2 * KB),
        Free("scratch 0"),
        Free("tensor 0"),
        Allocate("scratch 2", 0, KB),
        *(Free("scratch 2"), Free("tensor 1")),
    ]


def test_what_is_free_may_lie_apart() -> None:
    """16 KiB are held at most; but 8 that are wanted in one piece find 4 and 4 on both sides of what stays."""
    apart = step(
        (4, 0, 3, 0.0, 1.0),
        (8, 0, None, 1.0, 2.0),
        (4, 0, 3, 2.0, 3.0),
        (0, 0, None, 3.0, 4.0),
        (8, 0, None, 5.0, 6.0),
    )
    assert replay(list(step_events(apart)), 1 << 20).peak_requested_bytes == 16 * KB
    assert least_pool(apart) == pytest.approx(20 * KB, abs=256)


def test_without_such_pieces_the_peak_is_enough() -> None:
    falling = step((4, 0, None, 0.0, 1.0), (0, 8, None, 1.0, 2.0), (8, 0, None, 2.0, 3.0), resident=5)
    assert least_pool(falling) == pytest.approx(17 * KB, abs=256)
    assert least_pool(falling, 10 * KB) == pytest.approx(27 * KB, abs=256)
    assert least_pool(falling, -KB) == least_pool(falling)


def test_what_it_finds_has_room() -> None:
    memory = step(*((1 + 7 * i % 5, i % 3, i + 2 if i < 18 else None, i, i + 1.5) for i in range(20)))
    least = least_pool(memory)
    events = list(step_events(memory))
    assert replay(events, least).peak_requested_bytes <= least
    assert replay(events, least).reach_bytes <= least
