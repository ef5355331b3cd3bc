"""From traced steps of a job to what a plan is made of."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tfwave.cost.file import FileCosts
from tfwave.cost.model import CostSource
from tfwave.errors import EnforcerError
from tfwave.graph.item import GraphItem
from tfwave.graph.view import GraphView
from tfwave.memory.colocation import JobStep
from tfwave.memory.profile import MemoryProfile, OpMemory
from tfwave.runtime.trace.memory import Allocation, MemoryTrace


@dataclass(frozen=True)
class ProfiledStep:
    """The step of a job: the graph that ran, and what its ops take."""

    item: GraphItem
    step: JobStep

    @property
    def constant_bytes(self) -> int:
        """What another instance of the graph holds for good."""
        nodes = (node for node in self.item.graph.node if node.op == "Const")
        return sum(node.attr["value"].ByteSize() for node in nodes)


def find_graph(name: str, seen: Sequence[GraphItem], traces: Sequence[MemoryTrace]) -> GraphItem:
    """Of the graphs that were optimized, the one whose nodes allocated most in the traces, the last of equals.

    Raises:
        EnforcerError: none of them did.
    """
    sizes: Counter[str] = Counter()
    for trace in traces:
        for allocation in trace.allocations:
            sizes[allocation.node] += allocation.bytes
    held = [sum(sizes[node.name] for node in item.graph.node) for item in seen]
    if not any(held):
        raise EnforcerError(
            f"no graph of the job '{name}' was seen to allocate: let TensorFlow's graph optimizer run, and the "
            "step compute on the CPU"
        )
    return seen[max(range(len(seen)), key=lambda i: (held[i], i))]


def profile_step(
    name: str,
    item: GraphItem,
    traces: Sequence[MemoryTrace],
    resident: int,
    slowed_at_most: float | None = None,
) -> ProfiledStep:
    """The traced step with the highest peak, the first of equals; an op costs the least of its runs."""
    nodes = {node.name for node in item.graph.node}
    device = next((node.device for node in item.graph.node if node.device), "")
    steps = [trace.of_step(nodes) for trace in traces]
    profiles = [MemoryProfile(device, _ops(step, nodes), resident) for step in steps]
    profile = max(profiles, key=lambda found: found.peak)
    costs = FileCosts(_seconds(steps, nodes), {}, CostSource("measured", "measured"))
    return ProfiledStep(item, JobStep(name, GraphView.of(item.graph), profile, costs, slowed_at_most))


def _seconds(steps: Sequence[MemoryTrace], nodes: Collection[str]) -> dict[str, float]:
    """The least over the steps; a loop's op runs several times in each. What only allocated was cheap."""
    least: dict[str, float] = {}
    for step in steps:
        spent: dict[str, float] = defaultdict(float)
        for run in step.ops:
            if run.node in nodes:
                spent[run.node] += run.seconds
        least |= {node: min(seconds, least.get(node, seconds)) for node, seconds in spent.items()}
    allocating = (allocation.node for step in steps for allocation in step.allocations)
    return {node: 0.0 for node in allocating if node in nodes} | least


@dataclass(frozen=True)
class _Begun:
    at: float
    node: str
    until: float


def _ops(trace: MemoryTrace, nodes: Collection[str]) -> list[OpMemory]:
    """What each run did to the pool, in the order of begin.

    1. A buffer that is freed before the next op begins is scratch; else it is given back by the last op that had
       begun when it was freed.
    2. One that outlives the step, and is as large as one from before that was freed in it, takes its place, as a
       variable's new value does: it counts as scratch.
    3. What an op allocates under a name that the graph has not, as in a function that is called, is that of the op
       that began last.
    """
    begun = _begun(trace, nodes)
    begins = [run.at for run in begun]
    runs_of: Mapping[str, list[int]] = defaultdict(list)
    for place, run in enumerate(begun):
        runs_of[run.node].append(place)
    replaced = Counter(size for _, size in trace.others)
    takes: Counter[int] = Counter()
    gives: Counter[int] = Counter()
    scratch: dict[int, list[Allocation]] = defaultdict(list)
    for allocation in trace.allocations:
        born = _born(allocation, begins, runs_of)
        dies = None if allocation.freed is None else max(born, bisect_right(begins, allocation.freed) - 1)
        if dies is None and replaced[allocation.bytes]:
            replaced[allocation.bytes] -= 1
            dies = born
        if dies == born:
            scratch[born].append(allocation)
            continue
        takes[born] += allocation.bytes
        if dies is not None:
            gives[dies] += allocation.bytes
    most = [_most(scratch[place]) for place in range(len(begun))]
    beside = _beside(begun, most)
    return [
        OpMemory(run.node, takes[place], most[place], gives[place], beside[place])
        for place, run in enumerate(begun)
    ]


def _beside(begun: Sequence[_Begun], scratch: Sequence[int]) -> list[int]:
    """Per run: the scratch of those that began before it, and still run when it begins."""
    found: list[int] = []
    running: list[int] = []
    for place, run in enumerate(begun):
        running = [other for other in running if begun[other].until > run.at]
        found.append(sum(scratch[other] for other in running))
        running.append(place)
    return found


def _begun(trace: MemoryTrace, nodes: Collection[str]) -> list[_Begun]:
    """The runs of the graph's ops; a cheap one is known by what it allocated only."""
    ran = {run.node for run in trace.ops}
    runs = [
        _Begun(run.start_seconds, run.node, run.start_seconds + run.seconds)
        for run in trace.ops
        if run.node in nodes
    ]
    cheap: dict[str, float] = {}
    for allocation in trace.allocations:
        if allocation.node in nodes and allocation.node not in ran:
            cheap.setdefault(allocation.node, allocation.at)
    runs += [_Begun(at, node, at) for node, at in cheap.items()]
    return sorted(runs, key=lambda run: (run.at, run.node))


def _born(allocation: Allocation, begins: Sequence[float], runs_of: Mapping[str, Sequence[int]]) -> int:
    """The run that made a buffer: of its op's, the last that had begun."""
    running = max(0, bisect_right(begins, allocation.at) - 1)
    own = [place for place in runs_of.get(allocation.node, ()) if place <= running]
    return own[-1] if own else running


def _most(buffers: Sequence[Allocation]) -> int:
    """The most that is held at once."""
    held = most = 0
    for _, change in sorted(_changes(buffers)):
        held += change
        most = max(most, held)
    return most


def _changes(buffers: Sequence[Allocation]) -> Iterator[tuple[float, int]]:
    for buffer in buffers:
        yield buffer.at, buffer.bytes
        if buffer.freed is not None:
            yield buffer.freed, -buffer.bytes
