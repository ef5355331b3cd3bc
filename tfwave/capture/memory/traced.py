"""What a step of this process held, from its trace."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tfwave.memory.profile import MemoryProfile, OpMemory, scratch_beside
from tfwave.memory.step import StepMemory, Tensor
from tfwave.runtime.trace.memory import Allocation, MemoryTrace

TRACED_STEPS = 3
"""So many steps are traced: ops that can run at once begin in another order each time; the highest peak counts."""


def traced_memory(
    trace: MemoryTrace, nodes: Collection[str], device: str = "", resident: int = 0
) -> StepMemory:
    """What the ops of one step did to the pool, in the order of begin, above `resident` bytes.

    `trace` is of that step alone (`MemoryTrace.of_step`), `nodes` are those of its graph, or all that it has. It
    does not tell ports, nor who reads what: tensors are named by their nodes alone, and read until they are free.

    1. A buffer that is freed before its op ends, or before the next one begins, is scratch; else it is given back
       by the last op that had begun when it was freed.
    2. One that outlives the step, and is as large as one from before that was freed in it, takes its place, as a
       variable's new value does: it counts as held until then.
    3. What an op allocates under a name that the graph has not, as in a function that is called, is that of the op
       that began last.
    """
    trace = settled(trace)
    begun = begun_ops(trace, nodes)
    buffers = list(traced_buffers(trace, begun))
    tensors = [
        Tensor((b.made.node,), b.made.bytes, b.born, b.born if b.dies is None else b.dies, b.dies)
        for b in sorted(buffers, key=lambda buffer: buffer.born)
        if b.dies != b.born
    ]
    origin = begun[0].at if begun else 0.0
    return StepMemory(
        MemoryProfile(device, _ops(begun, buffers), resident),
        tuple(tensors),
        tuple([run.at - origin for run in begun]),
        tuple([run.until - origin for run in begun]),
    )


@dataclass(frozen=True)
class Begun:
    """A run of an op; seconds since the begin of the trace."""

    at: float
    node: str
    until: float


@dataclass(frozen=True)
class Buffer:
    """With the places of the runs that made it and after which it is free; scratch where they are one."""

    made: Allocation
    born: int
    dies: int | None


def settled(trace: MemoryTrace) -> MemoryTrace:
    """Case 2 of `traced_memory`: such a buffer is freed instead of the one from before, which is told no more."""
    freed: dict[int, list[float]] = defaultdict(list)
    for at, size in trace.others:
        freed[size].append(at)
    made: list[Allocation] = []
    for allocation in trace.allocations:
        takes_a_place = allocation.freed is None and freed[allocation.bytes]
        at = max(allocation.at, freed[allocation.bytes].pop(0)) if takes_a_place else allocation.freed
        made.append(replace(allocation, freed=at))
    others = sorted((at, size) for size, times in freed.items() for at in times)
    return replace(trace, allocations=tuple(made), others=tuple(others))


def traced_buffers(trace: MemoryTrace, begun: Sequence[Begun]) -> Iterator[Buffer]:
    """What the ops of a settled step allocated, by the other cases of `traced_memory`."""
    begins = [run.at for run in begun]
    runs_of: Mapping[str, list[int]] = defaultdict(list)
    for place, run in enumerate(begun):
        runs_of[run.node].append(place)
    for allocation in trace.allocations:
        born = _born(allocation, begins, runs_of)
        yield Buffer(allocation, born, _dies(allocation, born, begun, begins))


def _dies(made: Allocation, born: int, begun: Sequence[Begun], begins: Sequence[float]) -> int | None:
    if made.freed is None:
        return None
    return born if made.freed <= begun[born].until else max(born, bisect_right(begins, made.freed) - 1)


def _ops(begun: Sequence[Begun], buffers: Sequence[Buffer]) -> list[OpMemory]:
    takes: Counter[int] = Counter()
    gives: Counter[int] = Counter()
    scratch: dict[int, list[Allocation]] = defaultdict(list)
    for buffer in buffers:
        if buffer.dies == buffer.born:
            scratch[buffer.born].append(buffer.made)
            continue
        takes[buffer.born] += buffer.made.bytes
        if buffer.dies is not None:
            gives[buffer.dies] += buffer.made.bytes
    most = [most_at_once(scratch[place]) for place in range(len(begun))]
    beside = list(scratch_beside([(run.at, run.until) for run in begun], most))
    return [
        OpMemory(run.node, takes[place], most[place], gives[place], beside[place])
        for place, run in enumerate(begun)
    ]


def begun_ops(trace: MemoryTrace, nodes: Collection[str]) -> list[Begun]:
    """The runs of the graph's ops; a cheap one is known by what it allocated only."""
    ran = {run.node for run in trace.ops}
    runs = [
        Begun(run.start_seconds, run.node, run.start_seconds + run.seconds)
        for run in trace.ops
        if run.node in nodes
    ]
    cheap: dict[str, float] = {}
    for allocation in trace.allocations:
        if allocation.node in nodes and allocation.node not in ran:
            cheap.setdefault(allocation.node, allocation.at)
    runs += [Begun(at, node, at) for node, at in cheap.items()]
    return sorted(runs, key=lambda run: (run.at, run.node))


def _born(allocation: Allocation, begins: Sequence[float], runs_of: Mapping[str, Sequence[int]]) -> int:
    """The run that made a buffer: of its op's, the last that had begun."""
    running = max(0, bisect_right(begins, allocation.at) - 1)
    own = [place for place in runs_of.get(allocation.node, ()) if place <= running]
    return own[-1] if own else running


def most_at_once(buffers: Iterable[Allocation]) -> int:
    """The most bytes that are held at once."""
    held = most = 0
    for _, change in sorted(_changes(buffers)):
        held += change
        most = max(most, held)
    return most


def _changes(buffers: Iterable[Allocation]) -> Iterator[tuple[float, int]]:
    for buffer in buffers:
        yield buffer.at, buffer.bytes
        if buffer.freed is not None:
            yield buffer.freed, -buffer.bytes
