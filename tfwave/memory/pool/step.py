"""The pool that a traced step needs: what its ops ask for, played on a model of TensorFlow's allocator."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from tfwave.memory.pool.pools import ALIGNMENT, ONE_STREAM, PoolExhausted
from tfwave.memory.pool.replay import replay
from tfwave.memory.pool.trace import Allocate, Event, Free
from tfwave.memory.step import StepMemory

_GROWTH = 1.25
_DIGITS = 1000
"""The least pool is found to one part in so many."""


def least_pool(memory: StepMemory, besides: int = 0) -> int:
    """Bytes of a pool in which a step has room, and with a thousandth less had not, by a model of TensorFlow's.

    More than the step's peak: a pool gives pieces of up to twice what is asked for, and what is free may lie apart.
    The model is best fit in one region, with ops as they were traced, and what is resident in one row. Given this,
    ResNet-, Inception-, VGG- and BERT-like steps of 66 to 138 MiB had room in 8 of 8 trials. With 3 and with 6 %
    less those with convolutions still had (12 of 12), the BERT-like one had not (0 of 4).

    Args:
        memory: of the traced step.
        besides: bytes that others hold in the pool.
    """
    trace = list(step_events(memory))
    too_small, enough = 0, ALIGNMENT
    while not _has_room(trace, enough):
        too_small, enough = enough, int(enough * _GROWTH) + ALIGNMENT
    while (enough - too_small) * _DIGITS > enough and enough - too_small > ALIGNMENT:
        middle = (too_small + enough) // 2
        too_small, enough = (too_small, middle) if _has_room(trace, middle) else (middle, enough)
    return enough + memory.profile.resident + max(0, besides)


def step_events(memory: StepMemory) -> Iterator[Event]:
    """What a step asks of its pool by the times of its ops, besides what is resident.

    An op takes its outputs and its scratch when it begins. At its end its scratch is free, and what dies with it.
    """
    born, dying = _lives(memory)
    for op, begins in moments(memory):
        scratch = memory.profile.ops[op].scratch
        if begins:
            yield from (Allocate(f"tensor {t}", ONE_STREAM, memory.tensors[t].bytes) for t in born[op])
            if scratch:
                yield Allocate(f"scratch {op}", ONE_STREAM, scratch)
        else:
            if scratch:
                yield Free(f"scratch {op}")
            yield from (Free(f"tensor {t}") for t in dying[op])


def _lives(memory: StepMemory) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """The tensors that are born with each op, and those that die with it."""
    born: dict[int, list[int]] = defaultdict(list)
    dying: dict[int, list[int]] = defaultdict(list)
    for number, tensor in enumerate(memory.tensors):
        if tensor.bytes:
            born[tensor.born].append(number)
            if tensor.dies is not None:
                dying[tensor.dies].append(number)
    return born, dying


def moments(memory: StepMemory) -> Iterable[tuple[int, bool]]:
    """Ops by when they begin (True) and end; of one instant, ends come first, but for those of no duration."""
    moments: list[tuple[float, int, int]] = []
    for op, (begin, end) in enumerate(zip(memory.begins, memory.ends, strict=True)):
        moments += [(begin, 1, op), (end, 0 if end > begin else 2, op)]
    return ((op, kind == 1) for _, kind, op in sorted(moments))


def _has_room(trace: Sequence[Event], limit: int) -> bool:
    try:
        replay(trace, limit)
    except PoolExhausted:
        return False
    return True
