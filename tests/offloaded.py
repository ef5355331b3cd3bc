"""Random training steps, and what a plan does with one: replayed op by op, by rules of its own."""

import random
from dataclasses import dataclass, field, replace
from functools import cache

from tfwave.offload.fit import Fit, Fits, Policy
from tfwave.offload.step import Buffer, Op, Phase, TrainingStep
from tfwave.plan.memory import Memory

PIECE = 256
"""Bytes."""


def random_step(rng: random.Random, layers: int) -> TrainingStep:
    """Layers that read some of what came before, at times in its place; then what descends from their gradient."""
    return _Random(rng).step(layers)


def whole_pieces(step: TrainingStep, piece: int = PIECE) -> TrainingStep:
    """The same with bytes that an allocator gives as they are, and nothing that outlives the step."""
    buffers = [replace(b, bytes=b.bytes * piece, stays=False) for b in step.buffers]
    ops = [replace(op, scratch=op.scratch * piece) for op in step.ops]
    return TrainingStep(step.device, tuple(ops), tuple(buffers), step.resident * piece)


@cache
def whole_fit(policy: Policy, seed: int) -> tuple[TrainingStep, Fit]:
    """A random step in whole pieces, and how it fits into some more than the least."""
    rng = random.Random(seed)
    step = whole_pieces(random_step(rng, rng.randint(2, 12)))
    limit = Fits(step).least_limit + rng.randint(0, 40 * PIECE)
    fit = Fits(step).within(1 << 40 if policy is Policy.DYMEM else limit, policy)
    assert fit is not None
    return step, fit


@dataclass
class _Random:
    rng: random.Random
    ops: list[Op] = field(default_factory=list[Op])
    sizes: list[int] = field(default_factory=list[int])
    writers: list[list[int]] = field(default_factory=list[list[int]])
    uses: list[list[int]] = field(default_factory=list[list[int]])

    def step(self, layers: int) -> TrainingStep:
        rng = self.rng
        made, prepared = [self._op([], Phase.FORWARD)], list[int]()
        for _ in range(layers - 1):
            reads = rng.sample(made, min(len(made), rng.randint(1, 2)))
            made.append(self._op(reads, Phase.FORWARD, changes=rng.random() < 0.1))
            if rng.random() < 0.3:
                reads = [*rng.sample(prepared, min(len(prepared), rng.randint(0, 1))), rng.choice(made)]
                prepared.append(self._op(reads, Phase.EITHER, overwrites=reads[0] in prepared))
        gradient = self._op([made[-1]], Phase.BACKWARD)
        for buffer in reversed(made):
            saved = rng.sample(made + prepared, rng.randint(0, 1))
            gradient = self._op([gradient, buffer, *saved], Phase.BACKWARD)
        self._op([gradient, *prepared], Phase.BACKWARD)
        buffers = [
            Buffer((f"b{n}:0",), size, tuple(sorted(set(w))), tuple(sorted(set(u))), rng.random() < 0.05)
            for n, (size, w, u) in enumerate(zip(self.sizes, self.writers, self.uses, strict=True))
        ]
        return TrainingStep("/cpu", tuple(self.ops), tuple(buffers), rng.randint(0, 50))

    def _op(self, reads: list[int], phase: Phase, *, changes: bool = False, overwrites: bool = True) -> int:
        """An op after those that wrote what it reads; gives the buffer that it writes."""
        rng, number = self.rng, len(self.ops)
        after = tuple(sorted({self.writers[buffer][-1] for buffer in reads}))
        variable = frozenset([("VarHandleOp", "", f"v{rng.randint(0, 3)}")])
        self.ops.append(
            Op(
                f"op{number}",
                rng.randint(1, 9) * 1e-9,
                rng.choice([0, 0, rng.randint(1, 40)]),
                after,
                phase,
                repeats=rng.random() < 0.9,
                reads=variable if rng.random() < 0.3 else frozenset(),
                changes=variable
                if changes or (phase is Phase.BACKWARD and rng.random() < 0.3)
                else frozenset(),
            )
        )
        for buffer in reads:
            self.uses[buffer].append(number)
        if reads and overwrites and rng.random() < 0.25:
            self.writers[reads[0]].append(number)
            return reads[0]
        self.sizes.append(rng.randint(1, 60))
        self.writers.append([number])
        self.uses.append([number])
        return len(self.sizes) - 1


def replayed(step: TrainingStep, plan: Memory) -> list[int]:
    """Run a plan, op by op; gives the bytes that are held during each.

    Asserts that each op, also one that runs again, finds in its buffers what it found there in the traced step, and
    the variables that it reads as they were; and that nothing of a tensor is held while it is away, which none is
    that outlives the step.
    """
    wanted = _contents(step)
    number = {op.node: n for n, op in enumerate(step.ops)}
    order = [number[name] for name in plan.order]
    assert sorted(order) == list(range(len(step.ops)))
    buffers = {name: n for n, buffer in enumerate(step.buffers) for name in buffer.names}
    leaves = {(t.gone, buffers[t.names[0]]): t for t in plan.tensors}
    comes = [(t, buffers[t.names[0]]) for t in plan.tensors]
    last = [max(map(order.index, buffer.uses)) for buffer in step.buffers]
    there: dict[int, int | None] = {}
    host: dict[int, int | None] = {}
    changed: set[object] = set()
    curve: list[int] = []
    for place, op in enumerate(order):
        for name, buffer in leaves:
            if name == step.ops[op].node:
                assert not step.buffers[buffer].stays
                host[buffer] = there.pop(buffer)
        beside = 0
        for tensor, buffer in comes:
            if tensor.back != step.ops[op].node:
                continue
            assert buffer not in there
            left = host.pop(buffer)
            if tensor.method == "offload":
                there[buffer] = left
            else:
                again = [number[node] for node in tensor.again]
                beside += _run_again(step, again, (buffer, set(order[:place])), there, wanted, changed)
        _find(step, op, there, wanted)
        changed |= step.ops[op].changes
        held = step.resident + step.ops[op].scratch + beside + sum(step.buffers[b].bytes for b in there)
        curve.append(held)
        for buffer in step.used[op]:
            if last[buffer] == place and not step.buffers[buffer].stays:
                del there[buffer]
    assert not host
    return curve


def _contents(step: TrainingStep) -> dict[tuple[int, int], int | None]:
    """Who wrote last what each op finds in each buffer that it reads; None in one that it allocates."""
    found: dict[tuple[int, int], int | None] = {}
    for n, buffer in enumerate(step.buffers):
        for use in buffer.uses:
            found[use, n] = max((w for w in buffer.writers if w < use), default=None)
    return found


def _find(
    step: TrainingStep, op: int, there: dict[int, int | None], wanted: dict[tuple[int, int], int | None]
) -> None:
    for buffer in step.used[op]:
        if op == step.buffers[buffer].writers[0]:
            there[buffer] = None
        assert buffer in there, (op, buffer)
        assert there[buffer] == wanted[op, buffer], (op, buffer)
        if op in step.buffers[buffer].writers:
            there[buffer] = op


def _run_again(  # noqa: PLR0917
    step: TrainingStep,
    ops: list[int],
    until: tuple[int, set[int]],
    there: dict[int, int | None],
    wanted: dict[tuple[int, int], int | None],
    changed: set[object],
) -> int:
    """Bytes that ops take which run again for a buffer, besides it; what others hold stays as it is."""
    buffer, done = until
    beside = {b: content for b, content in there.items() if not set(ops) & set(step.buffers[b].writers)}
    kept = set(beside)
    for op in ops:
        assert step.ops[op].repeats
        assert not step.ops[op].reads & changed
        _find(step, op, beside, wanted)
    there[buffer] = beside[buffer]
    assert there[buffer] == max(done.intersection(step.buffers[buffer].writers))
    made = sum(step.buffers[b].bytes for b in beside.keys() - kept - {buffer})
    return made + max(step.ops[op].scratch for op in ops)
