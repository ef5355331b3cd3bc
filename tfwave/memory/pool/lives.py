"""When a step takes which bytes, and until when."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tfwave.memory.pool.pools import whole_pieces
from tfwave.memory.pool.step import moments
from tfwave.memory.step import StepMemory


@dataclass(frozen=True)
class Life:
    """Bytes that an op takes, as an output or for its scratch.

    Attributes:
        op: the node that takes them.
        bytes: whole pieces of TensorFlow's 256 bytes.
        born: the moment at which they are taken; moments are numbered, and in each one op begins or ends.
        dies: that from which on they are free; later than `born`.
        also: nodes that take some of them in the meantime, one after the other.
        is_scratch: are they scratch?
    """

    op: str
    bytes: int
    born: int
    dies: int
    also: tuple[str, ...] = ()
    is_scratch: bool = False


def life(op: str, size: int, born: int, dies: int) -> Life:
    """One of so many bytes, rounded up; it lasts for a moment at least."""
    return Life(op, whole_pieces(size), born, max(dies, born + 1))


def scratch_life(ops: Sequence[str], size: int, born: int, dies: int) -> Life:
    """That of scratch, which ops take one after the other."""
    op, *also = ops
    return replace(life(op, size, born, dies), also=tuple(also), is_scratch=True)


@dataclass(frozen=True)
class Beside:
    """Ops that run beside the others, as copies do, at another moment in each step.

    Attributes:
        behind: of those that may begin earlier than they were traced: the ops that they wait for.
        before: of those that may end later: the ops that wait for them.
    """

    behind: Mapping[str, Collection[str]] = field(default_factory=dict[str, Collection[str]])
    before: Mapping[str, Collection[str]] = field(default_factory=dict[str, Collection[str]])


def traced_lives(memory: StepMemory, beside: Beside | None = None) -> tuple[Life, ...]:
    """Those of a traced step, in the order in which they begin, by the times of its ops.

    An op takes its outputs and its scratch when it begins. At its end its scratch is free, and what dies with it.
    What an op takes or holds that runs `beside` lasts as long as it may, in whichever step. What outlives the step,
    such as a variable's new value, lies elsewhere.
    """
    return tuple(sorted(_traced(memory, beside or Beside()), key=lambda found: (found.born, -found.bytes)))


def _traced(memory: StepMemory, beside: Beside) -> Iterator[Life]:
    begins: dict[int, int] = {}
    ends: dict[int, int] = {}
    for moment, (op, is_begin) in enumerate(moments(memory)):
        (begins if is_begin else ends)[op] = moment
    ops = memory.profile.ops
    runs = {op.node: number for number, op in enumerate(ops)}

    def earliest(op: int) -> int:
        waits = [ends[runs[name]] for name in beside.behind.get(ops[op].node, ()) if name in runs]
        return min(max(waits), begins[op]) if waits else begins[op]

    def latest(op: int) -> int:
        waiting = [begins[runs[name]] for name in beside.before.get(ops[op].node, ()) if name in runs]
        return max(min(waiting), ends[op]) if waiting else ends[op]

    for tensor in memory.tensors:
        if tensor.bytes and tensor.dies is not None:
            dies = max(latest(op) for op in (tensor.dies, *tensor.uses))
            yield life(ops[tensor.born].node, tensor.bytes, earliest(tensor.born), dies)
    for number, op in enumerate(ops):
        if op.scratch:
            yield scratch_life([op.node], op.scratch, begins[number], ends[number])


def live_peak(lives: Sequence[Life]) -> int:
    """The most bytes that are held at once."""
    changes = sorted(
        [(each.born, 1, each.bytes) for each in lives] + [(each.dies, 0, -each.bytes) for each in lives]
    )
    held = most = 0
    for _, _, change in changes:
        held += change
        most = max(most, held)
    return most
