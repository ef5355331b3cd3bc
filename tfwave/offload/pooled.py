"""Fits into a pool in one piece, as TensorFlow fills it: what is free there may lie apart."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, count
from random import Random
from typing import Protocol

from tfwave.memory.pool.lives import Life, life, live_peak, scratch_life
from tfwave.memory.pool.serves import bfc_serves
from tfwave.memory.slots import limit_for, room
from tfwave.offload.fit import Fit, Fits, Policy, side_by_side
from tfwave.offload.layout import Method
from tfwave.offload.moves import Move
from tfwave.offload.step import Buffer
from tfwave.offload.timed import FittedRun

_FEWER_BESIDE = (4, 2, 1, 0)
"""Where a fit takes more of the pool than there is, so many ops run beside one."""
_LESS = 0.93
"""Where a fit takes more of the pool than there is, the next one holds at most this share of it."""
RACES = 64
"""Besides as it is forecast, a step runs so often in other ways: nobody knows which op of a few is done first."""
RACED = 2.0
"""In these an op takes up to so many times as long, or as short."""

FIRST_LOST = 1 << 20
"""Half of what TensorFlow's pool takes first, apart from the rest, is lost where one variable gets it whole.

That is more than half as large, so no more is lost than variables have.
"""
_AT_ONCE = 2
"""So many others begin at once with an op at most: one more op, and a copy."""
_FINER = 128
"""What a fit needs of a pool is looked for in steps of this part of what it holds at the least."""


class Way(Protocol):
    """One way in which a fitted step may run."""

    @property
    def needed(self) -> int:
        """No pool of fewer bytes serves it."""
        ...

    def has_room(self, held: int) -> bool:
        """Whether a pool of so many bytes serves it."""
        ...


@dataclass(frozen=True)
class Bytes:
    """One that each pool of so many bytes serves."""

    needed: int

    def has_room(self, held: int) -> bool:
        return self.needed <= held


@dataclass(frozen=True)
class InBfc:
    """One whose buffers lie where TensorFlow's allocator finds room, beside what is there all the time."""

    lives: tuple[Life, ...]
    resident: int

    @property
    def needed(self) -> int:
        return self._kept + live_peak(self.lives)

    def has_room(self, held: int) -> bool:
        return bfc_serves(self.lives, held - self._kept)

    @property
    def _kept(self) -> int:
        """What the step does not get."""
        return self.resident + min(FIRST_LOST, self.resident)


Ways = Callable[[Fit], Iterator[Way]]
"""Those in which a fit may run."""


class Pooled:
    """A fit that a pool serves: each way that its step may run is made once, as soon as it counts."""

    def __init__(self, fit: Fit, ways: Ways, running: int) -> None:
        """What it takes is known only when it is asked for; `running` as `memory.slots.room` has it."""
        self.fit, self._running = fit, running
        self._known: list[Way] = [Bytes(fit.forecast.peak)]
        self._others = ways(fit)
        self._lacked: Way | None = None

    def is_served(self, limit: int) -> bool:
        """Whether a pool of so many bytes serves each run, and leaves as much free as it has to."""
        return self._has_room(self.usable(limit))

    def usable(self, limit: int) -> int:
        """Of such a pool, what it may take."""
        return room(limit, self._running)

    @cached_property
    def needed(self) -> int:
        """A little that is known to do. More may not: where a piece is given whole, others may find none."""
        least = max(way.needed for way in self._ways())
        return next(held for held in count(least, max(1, least // _FINER)) if self._has_room(held))

    @property
    def least_limit(self) -> int:
        """That of a pool with just so much room."""
        return limit_for(self.needed, self._running)

    def _has_room(self, held: int) -> bool:
        """The way that lacked room is asked first the next time."""
        if self._lacked is None or self._lacked.has_room(held):
            self._lacked = next((way for way in self._ways() if not way.has_room(held)), None)
        return self._lacked is None

    def _ways(self) -> Iterator[Way]:
        yield from self._known
        for way in self._others:
            self._known.append(way)
            yield way


@dataclass(frozen=True)
class PoolFits:
    """Fits of a step into a pool in one piece.

    Attributes:
        fits: of the step.
        ways: in which it may run.
        alone: as `memory.slots.room` knows how sure that is where one op runs after the other; and
        beside: where ops run side by side.
    """

    fits: Fits
    ways: Ways
    alone: int
    beside: int

    @cached_property
    def away(self) -> tuple[Pooled, ...]:
        """With all away that can be, one op after the other."""
        return tuple(map(self._pooled, self.fits.away()))

    def fastest(self, limit: int, policy: Policy) -> Pooled | None:
        """The fastest that a pool of `limit` bytes serves, of fits that hold what has room, and of smaller ones.

        None if the policy finds none. The fewer ops run side by side, the less of a pool they need, so each fit is
        tried with fewer, too. The solver is asked once, and greedy for what holds less, until that is slower than
        what was found; the last that is tried has all away that can be.
        """
        best: Pooled | None = None
        for fit in self._smaller(room(limit, self.alone), policy):
            if best is not None and best.fit.seconds <= fit.seconds:
                break
            best = _fastest(limit, map(self._pooled, _beside(fit)), best)
        return best if policy is Policy.DYMEM else _fastest(limit, self.away, best)

    def _smaller(self, held: int, policy: Policy) -> Iterator[Fit]:
        by = policy
        while (fit := self.fits.within(held, by)) is not None:
            yield fit
            if policy is Policy.DYMEM:
                return
            held, by = int(min(held, fit.forecast.peak) * _LESS), Policy.GREEDY

    def _pooled(self, fit: Fit) -> Pooled:
        is_beside = any(fit.forecast.turns.beside)
        return Pooled(fit, self.ways, self.beside if is_beside else self.alone)


def _beside(fit: Fit) -> Iterator[Fit]:
    yield fit
    for most in _FEWER_BESIDE:
        yield side_by_side(fit, most)


def _fastest(limit: int, tried: Iterable[Pooled], best: Pooled | None) -> Pooled | None:
    for pooled in tried:
        if (best is None or pooled.fit.seconds < best.fit.seconds) and pooled.is_served(limit):
            best = pooled
    return best


def in_bfc(fit: Fit) -> Iterator[Way]:
    """Where TensorFlow's allocator places it: as it is forecast, and `RACES` other runs.

    Values that variables are given lie where a step made them while the next one runs, so that runs, too.
    """
    chance, forecast, step = Random(0), fit.forecast.run, fit.layout.step  # noqa: S311
    given = sum(buffer.bytes for buffer in step.buffers if _is_given(buffer))
    for ran in chain([forecast], (forecast.raced(chance, RACED) for _ in range(RACES))):
        lives = run_lives(fit, ran)
        yield InBfc(_twice(lives, _after(ran)) if given else lives, step.resident - given)


def _is_given(buffer: Buffer) -> bool:
    """Is it what a variable gets for what it had?"""
    return buffer.stays and buffer.is_value


def _after(ran: FittedRun) -> int:
    """The first moment of the next step."""
    return max(ran.run.ends, default=0) + 1


def _twice(lives: Sequence[Life], later: int) -> tuple[Life, ...]:
    """Those of two such steps, the second so many moments later."""
    return (*lives, *(replace(each, born=each.born + later, dies=each.dies + later) for each in lives))


def run_lives(fit: Fit, ran: FittedRun) -> tuple[Life, ...]:
    """What the step takes when, as it ran: with its scratch, and what runs again, until that is done."""
    return tuple(
        sorted(_Lives(fit, ran).lives(), key=lambda found: (found.born, found.is_scratch, -found.bytes))
    )


class _Lives:
    def __init__(self, fit: Fit, ran: FittedRun) -> None:
        self._layout, self._moves = fit.layout, fit.forecast.moves
        self._step, self._fitted = fit.layout.step, ran
        self._begins, self._ends = ran.run.begins, ran.run.ends
        self._ready = ran.run.ready
        """What is fetched has its bytes while it waits for its copy."""
        self._next = _after(ran)

    def lives(self) -> Iterator[Life]:
        for number, op in enumerate(self._step.ops):
            if op.scratch:
                yield self._scratch(op.node, op.scratch, number)
        moves = {self._layout.candidates[move.number].buffer: move for move in self._moves}
        for number, buffer in enumerate(self._step.buffers):
            if buffer.bytes:
                yield from self._moved(buffer, moves[number]) if number in moves else self._kept(buffer)

    def _kept(self, buffer: Buffer) -> Iterator[Life]:
        """What outlives the step is there until all is done; what a variable gets, until it gets something else."""
        until = self._read(buffer.uses)
        if _is_given(buffer):
            until += self._next
        elif buffer.stays:
            until = self._next - 1
        yield self._life(buffer, self._begins[buffer.writers[0]], until)

    def _moved(self, buffer: Buffer, move: Move) -> Iterator[Life]:
        late = self._layout.late_uses(self._layout.candidates[move.number])
        out = [self._fitted.out[move.number]] if move.method is Method.OFFLOAD else []
        until = self._read([*(set(buffer.uses) - {*late}), *out])
        yield self._life(buffer, self._begins[buffer.writers[0]], until)
        back = self._fitted.back[move.number]
        begins = self._ready if move.method is Method.OFFLOAD else self._begins
        yield self._life(buffer, begins[back], self._read([back, *late]))
        yield from self._beside(move, back)

    def _beside(self, move: Move, back: int) -> Iterator[Life]:
        """What ops take that run again, besides what they make again."""
        candidate = self._layout.candidates[move.number]
        if move.method is Method.OFFLOAD or candidate.chain is None:
            return
        names = self._step.buffers[candidate.buffer].names
        begins, ends = self._begins[back], self._ends[back]
        for op in self._step.scratch_of(candidate.chain.ops)[:1]:
            yield self._scratch(op.node, op.scratch, back)
        for node, size in self._step.made_again(candidate.chain.ops, names):
            yield life(node, size, begins, ends)

    def _scratch(self, node: str, size: int, number: int) -> Life:
        """Taken behind the outputs of all that begins at once with it."""
        begins, ends = self._begins[number], self._ends[number]
        return scratch_life([node], size, min(begins + _AT_ONCE, ends - 1), ends)

    def _read(self, users: Collection[int]) -> int:
        """When the last of these ops is done."""
        return max(self._ends[op] for op in users)

    def _life(self, buffer: Buffer, born: int, until: int) -> Life:
        return life(self._step.ops[buffer.writers[0]].node, buffer.bytes, born, until)
