"""What a training step takes that runs as a plan says."""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from tfwave.graph.names import parse_input
from tfwave.memory.pool.lives import Life, life, scratch_life
from tfwave.offload.step import Buffer, TrainingStep
from tfwave.plan.memory import METHODS, OFFLOAD, RECOMPUTE, AwayTensor, Memory
from tfwave.rewrite.fitted.beside import last_beside


def planned_lives(step: TrainingStep, plan: Memory) -> tuple[Life, ...]:
    """What a step takes if it runs as a plan says, in the plan's order.

    1. What an op uses is free when the last op has begun that may run beside it.
    2. What is away is free from the op on that needs its bytes, and is taken anew before the op that it comes back
       for, by the node that copies it back or makes it again.
    3. Before the op that what ops make again is for, they take the most of their scratch, and all else that they
       make.
    """
    planned = PlannedStep(step, plan)
    scratch = (life for _, life in planned.scratch())
    return in_turn([*(stay.life for stay in planned.stays), *scratch, *planned.again()])


def in_turn(lives: Iterable[Life]) -> tuple[Life, ...]:
    """By when each begins; the largest first."""
    return tuple(sorted(lives, key=lambda found: (found.born, -found.bytes)))


@dataclass(frozen=True)
class Stay:
    """A buffer while it is there: all the time, or until what lies in it leaves, or from when that is back.

    Attributes:
        buffer: its number in the step.
        life: what that takes; what left takes nothing from when it is back.
        free: the moment from which on its bytes are free, also where it is back before that.
        uses: the ops that write or read it meanwhile.
        goes_on: those that write it anew.
        is_copied: is it copied to the host in the end?
        is_value: as `Buffer.is_value`.
    """

    buffer: int
    life: Life
    free: int
    uses: Sequence[int]
    goes_on: Collection[int]
    is_copied: bool = False
    is_value: bool = False


class PlannedStep:
    """A step in the order of a plan."""

    def __init__(self, step: TrainingStep, plan: Memory) -> None:
        """Tensors are away as the plan says."""
        self.step = step
        self.away = [(label, tensor) for method in METHODS for label, tensor in plan.labelled(method)]
        self._ops = {op.node: number for number, op in enumerate(step.ops)}
        self._places = {name: place for place, name in enumerate(plan.order)}
        self._away_names = {name: each for each in self.away for name in each[1].names}
        self._chained = [self._places[name] for name in plan.chained]
        self._in_chain = frozenset(self._chained)
        self._last = last_beside(plan.beside, len(plan.chained))

    @cached_property
    def stays(self) -> list[Stay]:
        """Of all buffers but those that outlive the step."""
        return [
            stay
            for number, buffer in enumerate(self.step.buffers)
            if buffer.bytes and not buffer.stays
            for stay in self._of_buffer(number, buffer)
        ]

    def _of_buffer(self, number: int, buffer: Buffer) -> Iterator[Stay]:
        born = 2 * min(map(self.place, buffer.uses))
        dies = self.until(max(map(self.place, buffer.uses)))
        name = self.step.ops[buffer.writers[0]].node
        away = next((self._away_names[n] for n in buffer.names if n in self._away_names), None)
        if away is None:
            whole = life(name, buffer.bytes, born, dies)
            yield Stay(number, whole, dies, buffer.uses, buffer.writers[1:], is_value=buffer.is_value)
            return
        label, tensor = away
        left, back = self._places[tensor.after], 2 * self._places[tensor.back]
        early = [use for use in buffer.uses if self.place(use) <= left]
        late = [use for use in buffer.uses if self.place(use) > left]
        gone = self._gone(tensor)
        went = life(name, buffer.bytes, born, min(back, gone))
        came = life(f"{self._brought_by(buffer, tensor)}/{label}", buffer.bytes, back, dies)
        on = frozenset(buffer.writers[1:])
        yield Stay(number, went, gone, early, on.intersection(early), tensor.method == OFFLOAD)
        yield Stay(number, came, dies, late, on.intersection(late), is_value=buffer.is_value)

    def _brought_by(self, buffer: Buffer, tensor: AwayTensor) -> str:
        """The op whose name the node has that takes the bytes anew: what was written last until then is copied."""
        if tensor.method == RECOMPUTE:
            return self.step.ops[buffer.writers[0]].node
        first, *more = [parse_input(name).node for name in buffer.names]
        written = [
            self.step.ops[w].node for w in buffer.writers if self.place(w) <= self._places[tensor.after]
        ]
        return next((name for name in reversed(more) if name in written), first)

    def scratch(self) -> Iterator[tuple[int, Life]]:
        """That of the ops, by number."""
        for number, op in enumerate(self.step.ops):
            if op.scratch:
                place = self.place(number)
                yield number, scratch_life([op.node], op.scratch, 2 * place, self.until(place))

    def again(self) -> Iterator[Life]:
        """What chains take (case 3)."""
        for label, tensor in self.away:
            at, until = 2 * self._places[tensor.back], self.until(self._places[tensor.back])
            again = [self._ops[name] for name in tensor.again]
            if scratch := self.step.scratch_of(again):
                nodes = [f"{op.node}/{label}" for op in scratch]
                yield scratch_life(nodes, scratch[0].scratch, at, until)
            for node, size in self.step.made_again(again, tensor.names):
                yield life(f"{node}/{label}", size, at, until)

    def _gone(self, tensor: AwayTensor) -> int:
        """The moment from which on its bytes are free; what may begin before it is out finds them taken."""
        if tensor.method == RECOMPUTE:
            return self.until(self._places[tensor.after])
        gone = self._places[tensor.gone]
        until = self.until(gone)
        return until if until > 2 * gone + 1 else 2 * gone

    def keep_turns(self, ops: Iterable[int]) -> bool:
        """Do all of these ops? Others run whenever they can."""
        return all(self.place(op) in self._in_chain for op in ops)

    def place(self, op: int) -> int:
        """That of an op, by number."""
        return self._places[self.step.ops[op].node]

    def until(self, place: int) -> int:
        """The moment from which on it is free what the op at a place is the last to use (case 1)."""
        index = bisect_left(self._chained, place)
        last = self._chained[self._last[index]] if index < len(self._chained) else place
        return 2 * max(place, last) + 1
