"""Fits into a pool in one piece, as TensorFlow fills it: what is free there may lie apart."""

from collections.abc import Collection, Iterator

from tfwave.memory.pool.growing import bfc_in_one_region
from tfwave.memory.pool.lives import Life, life
from tfwave.offload.fit import Fit, Policy, away_fits, fit_step, side_by_side
from tfwave.offload.layout import Method
from tfwave.offload.moves import Move
from tfwave.offload.step import Buffer, TrainingStep

_FEWER_BESIDE = (3, 0)
"""Where a fit takes more of the pool than there is, so many ops run beside one."""
_LESS = 0.95
"""Where a fit takes more of the pool than there is, the next one holds at most this share of it."""


def fit_pool(step: TrainingStep, room: int, policy: Policy) -> Fit | None:
    """The fastest that a pool of `room` bytes can serve, of fits that hold at most so many, and of such with fewer.

    None if the policy finds none. The fewer ops run side by side, the less of a pool they need, so each fit is
    tried with fewer, too. The solver is asked once, and greedy for what holds less; the last that is tried has all
    away that can be.
    """
    best: Fit | None = None
    for fit in _tried(step, room, policy):
        for each in (fit, *(side_by_side(fit, most) for most in _FEWER_BESIDE)):
            if (best is None or each.seconds < best.seconds) and needed_bytes(each) <= room:
                best = each
    return best


def _tried(step: TrainingStep, room: int, policy: Policy) -> Iterator[Fit]:
    held, by = room, policy
    while (fit := fit_step(step, held, by)) is not None:
        yield fit
        if policy is Policy.DYMEM:
            return
        held, by = int(min(held, fit.forecast.peak) * _LESS), Policy.GREEDY
    yield from away_fits(step)


def needed_bytes(fit: Fit) -> int:
    """What a pool must have for it: what the step takes of one, and what it holds at the most, if that is more."""
    return max(fit.forecast.peak, pool_bytes(fit))


def pool_bytes(fit: Fit) -> int:
    """What the step takes of a pool, as its forecast runs, with what lies apart and what comes as padding."""
    return fit.layout.step.resident + bfc_in_one_region(run_lives(fit)).size


def run_lives(fit: Fit) -> tuple[Life, ...]:
    """What the step takes when, as its forecast runs: with its scratch, and what runs again, until that is done."""
    return tuple(sorted(_Lives(fit).lives(), key=lambda found: (found.born, -found.bytes)))


class _Lives:
    def __init__(self, fit: Fit) -> None:
        self._layout, self._moves = fit.layout, fit.forecast.moves
        self._step, self._fitted = fit.layout.step, fit.forecast.run
        run = fit.forecast.run.run
        self._begins, self._ends = run.begins, run.ends

    def lives(self) -> Iterator[Life]:
        for number, op in enumerate(self._step.ops):
            if op.scratch:
                yield life(op.node, op.scratch, self._begins[number], self._ends[number])
        moves = {self._layout.candidates[move.number].buffer: move for move in self._moves}
        for number, buffer in enumerate(self._step.buffers):
            if buffer.bytes and not buffer.stays:
                yield from self._moved(buffer, moves[number]) if number in moves else self._kept(buffer)

    def _kept(self, buffer: Buffer) -> Iterator[Life]:
        yield self._life(buffer, self._begins[buffer.writers[0]], buffer.uses)

    def _moved(self, buffer: Buffer, move: Move) -> Iterator[Life]:
        late = self._layout.late_uses(self._layout.candidates[move.number])
        out = [self._fitted.out[move.number]] if move.method is Method.OFFLOAD else []
        yield self._life(buffer, self._begins[buffer.writers[0]], [*(set(buffer.uses) - {*late}), *out])
        back = self._fitted.back[move.number]
        yield self._life(buffer, self._begins[back], [back, *late])
        yield from self._beside(move, back)

    def _beside(self, move: Move, back: int) -> Iterator[Life]:
        """What ops take that run again, besides what they make again."""
        candidate = self._layout.candidates[move.number]
        if move.method is Method.OFFLOAD or candidate.chain is None:
            return
        names = self._step.buffers[candidate.buffer].names
        for node, size in self._step.taken_again(candidate.chain.ops, names):
            yield life(node, size, self._begins[back], self._ends[back])

    def _life(self, buffer: Buffer, born: int, users: Collection[int]) -> Life:
        return life(
            self._step.ops[buffer.writers[0]].node, buffer.bytes, born, max(self._ends[n] for n in users)
        )
