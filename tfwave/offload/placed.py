"""Where the buffers of a captured step shall lie, as the section of a plan."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from tfwave.bundle.bundle import Bundle
from tfwave.bundle.memory import CapturedMemory, captured_memory
from tfwave.graph.marks import FETCH_OP, STASH_OP
from tfwave.graph.view import GraphView
from tfwave.memory.pool.lives import Beside, Life, life, live_peak, traced_lives
from tfwave.memory.pool.placement import place_offline
from tfwave.offload.step import TrainingStep
from tfwave.plan.fingerprint import graph_print
from tfwave.plan.memory import OFFLOAD, AwayTensor, Memory, Place
from tfwave.rewrite.fitted.beside import last_beside

POLICY = "placement"
SMALLEST_SHARE = 1e-4
"""Of the live peak: less than this lies elsewhere, as a few bytes that are held longer than in the trace would keep
what is large from its place."""


def placed_section(bundle: Bundle, device: str | None = None) -> Memory:
    """The places of all that the captured step takes and gives back; nothing is away, the order is the traced one.

    Raises:
        BundleError: as `captured_memory`.
    """
    found = captured_memory(bundle, device)
    traced = traced_lives(found.memory, copies_of(bundle.view))
    lives = [each for each in traced if each.bytes >= SMALLEST_SHARE * live_peak(traced)]
    placed = place_offline(lives)
    besides = max(1, found.memory.profile.resident + max(0, found.others or 0))
    places = [Place(each.op, start, each.bytes) for each, (start, _) in zip(lives, placed.spans, strict=True)]
    seconds = found.memory.seconds
    peak = besides + live_peak(lives)
    return Memory(
        graph=graph_print(bundle.view),
        limit_bytes=besides + placed.size,
        policy=POLICY,
        order=_order(found),
        tensors=(),
        peak_bytes=peak,
        seconds=seconds,
        plain_seconds=seconds,
        least_bytes=peak,
        places=tuple(places),
        region_bytes=placed.size,
    )


def copies_of(view: GraphView) -> Beside:
    """A copy out is done before the first op that waits for it; one back begins behind all that it waits for."""
    names = view.names
    return Beside(
        behind={
            names[n]: {names[f] for f in view.fanins[n]} for n, op in enumerate(view.ops) if op == FETCH_OP
        },
        before={
            names[n]: {names[f] for f in view.fanouts[n]} for n, op in enumerate(view.ops) if op == STASH_OP
        },
    )


def _order(found: CapturedMemory) -> tuple[str, ...]:
    """By when each began first."""
    return tuple(dict.fromkeys(op.node for op in found.memory.profile.ops))


def planned_lives(step: TrainingStep, plan: Memory) -> tuple[Life, ...]:
    """What a training step takes if it runs as a plan says, in the plan's order.

    1. What an op uses is free when the last op has begun that may run beside it.
    2. What is away is free from the op on that needs its bytes, and is taken anew before the op that it comes back
       for, under that op's name.
    3. Before the op that what ops make again is for, they take the most of their scratch, and all else that they
       make.
    """
    return tuple(sorted(_Planned(step, plan).lives(), key=lambda found: (found.born, -found.bytes)))


class _Planned:
    def __init__(self, step: TrainingStep, plan: Memory) -> None:
        self._step = step
        self._plan = plan
        self._ops = {op.node: number for number, op in enumerate(step.ops)}
        self._places = {name: place for place, name in enumerate(plan.order)}
        self._away = {name: tensor for tensor in plan.tensors for name in tensor.names}
        self._chained = [self._places[name] for name in plan.chained]
        self._last = last_beside(plan.beside, len(plan.chained))

    def lives(self) -> Iterator[Life]:
        for op in self._step.ops:
            if op.scratch:
                place = self._places[op.node]
                yield life(op.node, op.scratch, 2 * place, self._until(place))
        for number, buffer in enumerate(self._step.buffers):
            if buffer.bytes and not buffer.stays:
                yield from self._of_buffer(number)
        for tensor in self._plan.tensors:
            yield from self._again(tensor)

    def _of_buffer(self, number: int) -> Iterator[Life]:
        buffer = self._step.buffers[number]
        born, dies = self._span(buffer.uses)
        name = self._step.ops[buffer.writers[0]].node
        away = next((self._away[n] for n in buffer.names if n in self._away), None)
        if away is None:
            yield life(name, buffer.bytes, born, dies)
            return
        yield life(name, buffer.bytes, born, self._gone(away))
        yield life(away.back, buffer.bytes, 2 * self._places[away.back], dies)

    def _again(self, tensor: AwayTensor) -> Iterator[Life]:
        """Case 3."""
        at, until = 2 * self._places[tensor.back], self._until(self._places[tensor.back])
        again = {self._ops[name] for name in tensor.again}
        for node, size in self._step.taken_again(again, tensor.names):
            yield life(node, size, at, until)

    def _span(self, uses: Sequence[int]) -> tuple[int, int]:
        places = [self._places[self._step.ops[use].node] for use in uses]
        return 2 * min(places), self._until(max(places))

    def _gone(self, tensor: AwayTensor) -> int:
        """Ops that may begin before the copy out is done find its bytes taken."""
        gone, back = self._places[tensor.gone], self._places[tensor.back]
        alone = 2 * gone if tensor.method == OFFLOAD else 2 * self._places[tensor.after] + 1
        until = self._until(gone if tensor.method == OFFLOAD else self._places[tensor.after])
        return min(2 * back, until) if until > 2 * gone + 1 else alone

    def _until(self, place: int) -> int:
        """Case 1."""
        index = bisect_left(self._chained, place)
        last = self._chained[self._last[index]] if index < len(self._chained) else place
        return 2 * max(place, last) + 1
