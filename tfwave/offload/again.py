"""What must run again so that a tensor is there again."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tfwave.offload.step import TrainingStep

_MOST_OPS = 64


@dataclass(frozen=True)
class Chain:
    """What makes a buffer's contents once more.

    Attributes:
        ops: that run again, in the order in which they were traced.
        needs: the buffers that must be there: tensors that could be away themselves.
        temporary: bytes of what these ops allocate and need no longer then, scratch included.
        seconds: they take.
    """

    ops: tuple[int, ...]
    needs: tuple[int, ...]
    temporary: int
    seconds: float


class Chains:
    """The chains of a step in one order.

    A chain goes back to the candidates, the tensors that may be away, and to what is there until `until`, the place
    of the op before which it runs; all else it makes again. There is none:

    1. where an op does not give the same twice;
    2. where a variable that an op reads is updated before;
    3. where it gets longer than 64 ops.
    """

    def __init__(self, step: TrainingStep, places: Sequence[int], candidates: Collection[int]) -> None:
        """Places say when each op runs."""
        self._step, self._places, self._candidates = step, places, frozenset(candidates)
        self._changed: dict[object, int] = {}
        for number, op in enumerate(step.ops):
            for variable in op.changes:
                self._changed[variable] = min(self._changed.get(variable, len(places)), places[number])

    def of(self, number: int, until: int) -> Chain | None:
        """That of a buffer; None if there is none."""
        needs, made, ops = set[int](), {number}, dict[int, None]()
        stack = self._makers(number, until)
        while stack:
            op = stack.pop()
            if op in ops:
                continue
            ops[op] = None
            if len(ops) > _MOST_OPS or not self._can_run(op, until):
                return None
            for used in self._step.used[op]:
                if op == self._step.buffers[used].writers[0]:
                    made.add(used)
                elif used != number and self._is_there(used, op, until):
                    needs.update({used} & self._candidates)
                else:
                    made.add(used)
                    stack += [w for w in self._makers(used, until) if w < op]
        return self._chain(number, tuple(sorted(ops)), needs - made, made)

    def _chain(
        self, number: int, ops: tuple[int, ...], needs: Collection[int], made: Collection[int]
    ) -> Chain:
        buffers, steps = self._step.buffers, self._step.ops
        temporary = sum(buffers[other].bytes for other in made if other != number)
        scratch = max(steps[op].scratch for op in ops)
        return Chain(ops, tuple(sorted(needs)), temporary + scratch, sum(steps[op].seconds for op in ops))

    def _makers(self, number: int, until: int) -> list[int]:
        """What writes a buffer, and gives out slices of it: those of before would hold what is gone."""
        buffer = self._step.buffers[number]
        return [w for w in (*buffer.writers, *buffer.slices) if self._places[w] < until]

    def _can_run(self, op: int, until: int) -> bool:
        found = self._step.ops[op]
        return found.repeats and all(self._changed.get(v, until) >= until for v in found.reads)

    def _is_there(self, number: int, reader: int, until: int) -> bool:
        """Does a buffer hold, before the op at `until`, what an op read in it?"""
        buffer = self._step.buffers[number]
        if any(w > reader and self._places[w] < until for w in buffer.writers):
            return False
        last = max(self._places[use] for use in buffer.uses)
        return buffer.stays or last >= until
