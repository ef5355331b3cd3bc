"""A training step as one decides on its memory: ops, and the buffers that they use."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from tfwave.graph.access import Resource
from tfwave.offload.threads import Lanes, Task, Work, lanes_of


class Phase(Enum):
    """The pass of a training step in which an op runs."""

    FORWARD = "forward"
    EITHER = "either"
    """Only the backward pass wants what it makes, but of values of the forward pass alone."""
    BACKWARD = "backward"
    """It descends from the loss's gradient."""


@dataclass(frozen=True)
class Op:
    """One run of an op.

    Attributes:
        node: its name.
        seconds: it takes alone.
        scratch: bytes held only while it runs.
        after: the ops that run before it, by number.
        phase: the pass in which it runs.
        repeats: does it give the same, bit for bit, when it runs again?
        reads: the variables whose values it takes.
        changes: those that it updates.
        is_heavy: is it a convolution or a product of matrices?
        inputs: the buffers that it reads, by number, in the order of its inputs; None where it reads none.
        commutes: does it give the same, bit for bit, when its two inputs change places?
        in_branch: is it in a branch, which a step may leave out? What waits for it is then left out, too.
    """

    node: str
    seconds: float
    scratch: int
    after: tuple[int, ...]
    phase: Phase
    repeats: bool = True
    reads: frozenset[Resource] = frozenset()
    changes: frozenset[Resource] = frozenset()
    is_heavy: bool = False
    inputs: tuple[int | None, ...] = ()
    commutes: bool = False
    in_branch: bool = False


@dataclass(frozen=True)
class Buffer:
    """What several tensors may lie in, one after the other: an op can go on in the buffer that it reads.

    Attributes:
        names: ``node:port`` of these.
        bytes: that it needs, in whole pieces of the allocator, which may give it more.
        writers: the ops that write it, by number, in turn; the first allocates it.
        uses: all that write or read it, ascending.
        stays: does it outlive the step?
        slices: the ops that give out parts of it, which write nothing: all of it is there until all are read.
        is_value: is it a variable's value behind the step? What that had before is freed for it.
    """

    names: tuple[str, ...]
    bytes: int
    writers: tuple[int, ...]
    uses: tuple[int, ...]
    stays: bool = False
    slices: tuple[int, ...] = ()
    is_value: bool = False


@dataclass(frozen=True)
class TrainingStep:
    """One step on one device; ops are numbered in the order in which they were traced.

    `resident` are the bytes that lie there all the time: variables, constants, what is fed, and what others hold.
    """

    device: str
    ops: tuple[Op, ...]
    buffers: tuple[Buffer, ...]
    resident: int

    @cached_property
    def seconds(self) -> float:
        """Of the step as it is: each op begins when it can."""
        return Work([Task(op.seconds, op.after) for op in self.ops], self.lanes).run().seconds

    @property
    def lanes(self) -> Lanes:
        """What its device runs at once."""
        return lanes_of(self.device)

    @cached_property
    def used(self) -> tuple[tuple[int, ...], ...]:
        """Of each op: the buffers that it writes or reads."""
        used: list[list[int]] = [[] for _ in self.ops]
        for number, buffer in enumerate(self.buffers):
            for op in buffer.uses:
                used[op].append(number)
        return tuple(map(tuple, used))

    def scratch_of(self, ops: Iterable[int]) -> list[Op]:
        """Those of the ops that take scratch, the one that takes the most first."""
        taking = [self.ops[number] for number in sorted(ops) if self.ops[number].scratch]
        return sorted(taking, key=lambda op: -op.scratch)

    def made_again(self, ops: Collection[int], names: tuple[str, ...]) -> Iterator[tuple[str, int]]:
        """Bytes that ops make which run again, by the node that allocates; but for the buffer of these names."""
        for number in sorted({number for op in ops for number in self._written.get(op, ())}):
            buffer = self.buffers[number]
            if buffer.bytes and buffer.names != names:
                yield self.ops[buffer.writers[0]].node, buffer.bytes

    @cached_property
    def _written(self) -> Mapping[int, Sequence[int]]:
        """The buffers that an op writes, by number."""
        written: dict[int, list[int]] = defaultdict(list)
        for number, buffer in enumerate(self.buffers):
            for writer in buffer.writers:
                written[writer].append(number)
        return written

    @cached_property
    def before(self) -> tuple[frozenset[int], ...]:
        """Of each op: those that run before it, in any order that leaves all results and buffers as they are.

        An op that goes on in a buffer comes behind all that used it before, and before all that use it later.
        """
        before = [set(op.after) for op in self.ops]
        for buffer in self.buffers:
            for use in buffer.uses:
                before[use].update(_ordered_with(buffer, use))
        return tuple(frozenset(ops - {number}) for number, ops in enumerate(before))


def _ordered_with(buffer: Buffer, use: int) -> Sequence[int]:
    """The uses of a buffer that come before one of them: all, of a writer; the last writer, of a reader."""
    if use in buffer.writers:
        return buffer.uses[: buffer.uses.index(use)]
    return [max(writer for writer in buffer.writers if writer < use)]
