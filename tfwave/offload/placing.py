"""Where all that a fitted step takes lies in a pool, so that each op finds its place free, whatever runs first."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

from tfwave.memory.pool.lives import Life
from tfwave.offload.fit import Fit
from tfwave.offload.places import Region
from tfwave.offload.planned import PlannedStep, Stay, in_turn
from tfwave.offload.pooled import Bytes
from tfwave.offload.section import memory_section
from tfwave.offload.step import TrainingStep
from tfwave.plan.fingerprint import NO_GRAPH
from tfwave.plan.memory import RECOMPUTE, Memory

PLACE_SECONDS = 4e-7
"""For each buffer: so much longer it takes to find its place, and to give it back, than TensorFlow's pool does."""


def in_places(fit: Fit) -> Iterator[Bytes]:
    """In a pool in which a fitted step lies as planned it takes the same, however it runs."""
    plan = memory_section(fit, NO_GRAPH, fit.forecast.peak, fit.forecast.peak)
    yield Bytes(_Placing(PlannedStep(fit.layout.step, plan)).pool_bytes)


def with_places(step: TrainingStep, plan: Memory) -> Memory:
    """The plan with places for all that the step takes; it promises what that needs of a pool.

    1. What had a buffer of its own keeps to that: where fewer others read what it is made of than did when the step
       was captured, its op could go on in the buffer of that, and must not.
    2. Where an op goes on in one of two buffers, by who else still reads them, its inputs change places so that it
       finds the one that was captured first; or what it makes gets a buffer of its own, too.
    3. What becomes the value of a variable lies elsewhere: it would hold its place behind the step, and what the
       next one has there, large as it may be, would find it taken.
    4. It also promises the time that the places take: of a step of thousands of small ops a tenth.
    """
    placing = _Placing(PlannedStep(step, plan))
    region = placing.region
    return replace(
        plan,
        places=region.places,
        region_bytes=region.bytes,
        peak_bytes=max(plan.peak_bytes, placing.pool_bytes),
        seconds=plan.seconds + PLACE_SECONDS * len(region.places),
        apart=tuple(dict.fromkeys(name for name in placing.makers if name in placing.apart)),
        swapped=tuple(step.ops[op].node for op in sorted(placing.swapped)),
    )


class _Placing:
    def __init__(self, planned: PlannedStep) -> None:
        self._planned, self._step = planned, planned.step

    @cached_property
    def region(self) -> Region:
        planned, ops = self._planned, self._step.ops
        stays = [stay for stay in planned.stays if planned.keep_turns(stay.uses)]
        scratch = [
            (life, bool(ops[op].changes)) for op, life in planned.scratch() if planned.keep_turns([op])
        ]
        lives = [*((life, stay.is_value) for stay in stays for life in self._lives(stay)), *scratch]
        return Region.of(
            in_turn([*(life for life, is_value in lives if not is_value), *planned.again()]),
            in_turn(life for life, is_value in lives if is_value),
        )

    @property
    def makers(self) -> list[str]:
        """The nodes that take bytes of the region, and those that make what becomes a variable's value."""
        values = [stay for stay in self._planned.stays if stay.is_value]
        made = [life.op for stay in values for life in self._lives(stay)]
        return [*(place.op for place in self.region.places), *made] if self.region.places else []

    @property
    def pool_bytes(self) -> int:
        outlives = sum(buffer.bytes for buffer in self._step.buffers if buffer.stays)
        return self._step.resident + outlives + self.region.bytes + self.region.elsewhere + self._free_bytes

    @property
    def _free_bytes(self) -> int:
        """What ops take that keep no turn lies elsewhere: all of it, as they run whenever they can."""
        planned = self._planned
        stays = [stay.life.bytes for stay in planned.stays if not planned.keep_turns(stay.uses)]
        scratch = [life.bytes for op, life in planned.scratch() if not planned.keep_turns([op])]
        return sum(stays) + sum(scratch)

    @cached_property
    def apart(self) -> frozenset[str]:
        """The nodes that make what has a buffer of its own, and nothing that lies in one that they read."""
        buffers = self._step.buffers
        ops = {b.writers[0] for b in buffers} - {w for b in buffers for w in b.writers[1:]} | self._unsure
        nodes = {self._step.ops[number].node for number in ops}
        again = {
            f"{name}/{label}"
            for label, tensor in self._planned.away
            if tensor.method == RECOMPUTE
            for name in nodes.intersection(tensor.again)
        }
        return frozenset(nodes | again)

    @cached_property
    def swapped(self) -> frozenset[int]:
        """Of those that are led astray, the ops for which it does not matter which of their inputs is the first."""
        return frozenset(op for op in self._led_astray if self._step.ops[op].commutes)

    @cached_property
    def _unsure(self) -> frozenset[int]:
        return self._led_astray - self.swapped

    @cached_property
    def _led_astray(self) -> frozenset[int]:
        """The ops that may go on in another buffer than they did: that of the first input that is theirs alone."""
        by_op: dict[int, list[Stay]] = defaultdict(list)
        for stay in self._planned.stays:
            for use in stay.uses:
                by_op[use].append(stay)
        return frozenset(
            op
            for op, stays in by_op.items()
            for stay in stays
            if op in stay.goes_on and any(self._comes_first(op, other, stay) for other in stays)
        )

    def _comes_first(self, op: int, other: Stay, stay: Stay) -> bool:
        inputs = self._step.ops[op].inputs
        return (
            other.life.bytes == stay.life.bytes
            and {other.buffer, stay.buffer} <= {*inputs}
            and inputs.index(other.buffer) < inputs.index(stay.buffer)
            and self._may_be_last(op, other)
        )

    def _may_be_last(self, op: int, stay: Stay) -> bool:
        """May an op find that all others that use a buffer are done? A copy out holds it for longer."""
        planned = self._planned
        return not stay.is_copied and 2 * max(map(planned.place, stay.uses)) < planned.until(
            planned.place(op)
        )

    def _lives(self, stay: Stay) -> Iterator[Life]:
        """What an unsure op makes has one of its own."""
        planned, found = self._planned, replace(stay.life, dies=stay.free)
        for op in sorted(self._unsure.intersection(stay.goes_on), key=planned.place):
            place = planned.place(op)
            yield replace(found, dies=planned.until(place))
            found = replace(found, op=self._step.ops[op].node, born=2 * place)
        yield found
