"""Which buffers a step held, from the runs of its ops and who reads what.

An output of a run lies

1. in the buffer of a tensor that the op reads, if it is at the same place; where that is not known, as of what
   arrived from another task, if it is of the same size and the run allocated none such;
2. in a new buffer, if the run allocated one of that size;
3. in the buffer that was last seen to be new, or there before, at its place, if that is still held: an element
   taken from a list, a variable read again;
4. in what was there before the step, if it is a variable's value, a constant or what the caller fed;
5. in a new buffer otherwise: it arrived, or a function, a queue or an iterator made it.

What a run allocated, did not give out and freed only after its end, an op keeps: the contents of a list. If it is
never freed, it takes the place of something as large, such as a variable's old value: it counts as scratch.

A buffer is free after the last op that had begun when the allocator freed it, to the microsecond; which, as far as
that leaves open, is its last reader. What seems to read it later reads another one, of another turn of its loop.
Where the allocator does not tell, it is free after its last reader. It outlives the step if it is never freed or,
where the allocator does not tell, if it is fetched.

The scratch of an op is held until it ends, also beside what begins meanwhile.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tfwave.bundle.memory.runs import Output, Place, Run
from tfwave.graph.access import VARIABLE_OPS
from tfwave.graph.flow_ops import ARG_OPS, MERGE_OPS, RETVAL_OPS
from tfwave.graph.names import TensorName, parse_input
from tfwave.memory.profile import OpMemory, scratch_beside
from tfwave.memory.step import Tensor
from tfwave.proto.tensorflow_pb2 import NodeDef

STATE_OPS = frozenset(
    {
        *("Const", "HostConst", "ImmutableConst", "Placeholder"),
        *ARG_OPS,
        *VARIABLE_OPS,
        *("ReadVariableOp", "_ReadVariablesOp"),
    }
)
"""Ops that allocate nothing in a step: they give out what is there."""


@dataclass(eq=False)
class _Buffer:
    bytes: int
    born: int
    place: Place | None
    last: int
    """The place of the last run that reads it, or gives it out."""
    names: dict[str, None] = field(default_factory=dict[str, None])
    uses: dict[int, None] = field(default_factory=dict[int, None])
    traced: bool = False
    """Whether the allocator tells when it was freed."""
    freed: int | None = None
    fetched: bool = False
    asked: int = 0

    def use(self, place: int) -> None:
        self.last = place
        self.uses[place] = None


@dataclass(frozen=True)
class Replayed:
    """What the runs of a step did: per op, and per buffer.

    `found` is what was there before, in bytes, as far as ops gave it out; `givers` are these ops.
    """

    ops: tuple[OpMemory, ...]
    tensors: tuple[Tensor, ...]
    found: int
    givers: frozenset[str]


def replay(runs: Sequence[Run], nodes: Mapping[str, NodeDef], fetches: Sequence[str]) -> Replayed:
    """Follow the buffers of a device through a step, whose runs are in the order of begin."""
    return _Replay(runs, nodes, fetches).result()


class _Replay:
    def __init__(self, runs: Sequence[Run], nodes: Mapping[str, NodeDef], fetches: Sequence[str]) -> None:
        self._runs = runs
        self._nodes = nodes
        self._inputs = {name: _data_inputs(node) for name, node in nodes.items()}
        self._fetches = {parse_input(name) for name in fetches}
        self._begins = [run.begin for run in runs]
        self._tensors: dict[TensorName, _Buffer] = {}
        self._places: dict[Place, _Buffer] = {}
        self._made: list[_Buffer] = []
        self._found: list[_Buffer] = []
        self._givers: set[str] = set()
        self._scratch: list[int] = []
        self._own: list[list[_Buffer]] = []
        for i, run in enumerate(runs):
            self._follow(i, run)
        for run, own in zip(runs, self._own, strict=True):
            _tell_frees(run, own)

    def result(self) -> Replayed:
        takes: Counter[int] = Counter()
        gives: Counter[int] = Counter()
        tensors: list[Tensor] = []
        for buffer in sorted(self._made, key=lambda b: b.born):
            dies = self._death(buffer)
            read = buffer.last if dies is None else min(buffer.last, dies)
            tensors.append(
                Tensor(
                    tuple(buffer.names),
                    buffer.bytes,
                    buffer.born,
                    read,
                    dies,
                    tuple(buffer.uses),
                    buffer.asked,
                )
            )
            takes[buffer.born] += buffer.bytes
            if dies is not None:
                gives[dies] += buffer.bytes
        beside = scratch_beside([(run.begin, run.end) for run in self._runs], self._scratch)
        ops = tuple(
            OpMemory(run.node, takes[i], scratch, gives[i], others)
            for i, (run, scratch, others) in enumerate(zip(self._runs, self._scratch, beside, strict=True))
        )
        return Replayed(
            ops, tuple(tensors), sum(buffer.bytes for buffer in self._found), frozenset(self._givers)
        )

    def _follow(self, i: int, run: Run) -> None:
        reads = [self._tensors[t] for t in self._inputs.get(run.node, ()) if t in self._tensors]
        op = self._op(run)
        for buffer in reads:
            if op not in MERGE_OPS:  # it reads one input only: that which it gives out
                buffer.use(i)
            buffer.fetched |= op in RETVAL_OPS
        left = Counter(run.allocated)
        own: list[_Buffer] = []
        for output in run.outputs:
            buffer = self._buffer(i, run, output, reads, left)
            tensor = TensorName(run.node, output.port)
            self._tensors[tensor] = buffer
            buffer.names[f"{run.node}:{output.port}"] = None
            buffer.use(i)
            buffer.fetched |= tensor in self._fetches
            if buffer.traced and buffer.born == i and buffer not in own:
                own.append(buffer)
        own += self._kept(i, run, left)
        self._own.append(own)
        self._scratch.append(max(0, run.most - sum(buffer.bytes for buffer in own)))

    def _buffer(
        self, i: int, run: Run, output: Output, reads: Sequence[_Buffer], left: Counter[int]
    ) -> _Buffer:
        here = [buffer for buffer in reads if _held(buffer, self._runs, i)]
        shared = _shared(output, here, allocated=left[output.bytes] > 0)
        if shared is not None:
            return shared  # 1
        if left[output.bytes] > 0:
            left[output.bytes] -= 1
            return self._make(i, output, self._made, traced=True)  # 2
        last = self._places.get(output.place) if output.place is not None else None
        if last is not None and _held(last, self._runs, i):
            return last  # 3
        if self._op(run) in STATE_OPS:
            self._givers.add(run.node)
            return self._make(i, output, self._found)  # 4
        return self._make(i, output, self._made)  # 5

    def _op(self, run: Run) -> str:
        return self._nodes[run.node].op if run.node in self._nodes else ""

    def _make(self, i: int, output: Output, among: list[_Buffer], *, traced: bool = False) -> _Buffer:
        buffer = _Buffer(output.bytes, i, output.place, i, traced=traced, asked=output.asked)
        among.append(buffer)
        if output.place is not None:
            self._places[output.place] = buffer
        return buffer

    def _kept(self, i: int, run: Run, left: Mapping[int, int]) -> list[_Buffer]:
        """What an op keeps to itself for a while."""
        kept: list[_Buffer] = []
        for size in sorted(left):
            late = [time for time in run.freed.get(size, ())[: left[size]] if time > run.end]
            kept += [_Buffer(size, i, None, i, {run.node: None}, traced=True) for _ in late]
        self._made += kept
        return kept

    def _death(self, buffer: _Buffer) -> int | None:
        if not buffer.traced:
            return None if buffer.fetched else buffer.last
        if buffer.freed is None:
            return None
        begun = bisect_right(self._begins, buffer.freed) - 1
        begun_late = bisect_right(self._begins, buffer.freed + 999) - 1
        return max(begun, min(buffer.last, begun_late), buffer.born)


def _shared(output: Output, reads: Sequence[_Buffer], *, allocated: bool) -> _Buffer | None:
    """The buffer of an input in which an output lies."""
    here = (buffer for buffer in reads if buffer.place == output.place)
    alike = (b for b in reads if b.place is None and b.bytes == output.bytes and not allocated)
    return next(here, None) or next(alike, None)


def _tell_frees(run: Run, own: Sequence[_Buffer]) -> None:
    """Say when the buffers of a run were freed: of several of one size, the one that is read last goes last.

    Scratch went first.
    """
    sizes: dict[int, list[_Buffer]] = defaultdict(list)
    for buffer in own:
        sizes[buffer.bytes].append(buffer)
    for size, buffers in sizes.items():
        freed = run.freed.get(size, ())
        never = run.allocated[size] - len(freed)
        times = [*freed, *[None] * never][-len(buffers) :]
        for buffer, time in zip(sorted(buffers, key=lambda b: (b.fetched, b.last)), times, strict=True):
            buffer.freed = time


def _held(buffer: _Buffer, runs: Sequence[Run], i: int) -> bool:
    """Whether a buffer can still be there when a run begins; frees are known to the microsecond."""
    run = runs[buffer.born]
    freed = run.freed.get(buffer.bytes, ())
    if not buffer.traced or len(freed) < run.allocated[buffer.bytes]:
        return True
    return freed[-1] >= runs[i].begin // 1000 * 1000


def _data_inputs(node: NodeDef) -> tuple[TensorName, ...]:
    return tuple(parse_input(text) for text in node.input if not text.startswith("^"))
