"""A step laid out in one order: what it holds during each op, and which tensors could be away for a while."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from tfwave.offload.again import Chain, Chains
from tfwave.offload.step import Phase, TrainingStep

SMALLEST_SHARE = 1e-3
"""Tensors of less than this share of the peak are kept."""

Bytes = npt.NDArray[np.int64]


class Method(IntEnum):
    """What is done with a tensor between its last use in the forward pass and its first in the backward pass."""

    KEEP = 0
    OFFLOAD = 1
    """It is copied to the host's memory, and back."""
    RECOMPUTE = 2
    """It is dropped, and made again."""


KEEP, OFFLOAD, RECOMPUTE = map(int, Method)
"""NumPy compares with these five times as fast, and a choice is made of thousands that are measured."""


@dataclass(frozen=True)
class Candidate:
    """A tensor that could be away.

    Attributes:
        buffer: its number in the step.
        bytes: that it takes.
        left: the place of the last op of the forward pass that uses it.
        wanted: that of the first of the backward pass.
        fetched: that of the op before which a copy back begins, at the latest `wanted`.
        chain: what makes it again; None if nothing does.
    """

    buffer: int
    bytes: int
    left: int
    wanted: int
    fetched: int
    chain: Chain | None


@dataclass(frozen=True)
class Layout:
    """A step in one order.

    Attributes:
        step: what runs.
        order: its ops.
        kept: bytes held during each op, by its place, if all is kept.
        candidates: in the order in which they got what they hold when they leave: chains need only those before.
    """

    step: TrainingStep
    order: tuple[int, ...]
    kept: Bytes
    candidates: tuple[Candidate, ...]

    @classmethod
    def of(cls, step: TrainingStep, order: tuple[int, ...], lead: int) -> "Layout":
        """Lay a step out; a copy back begins `lead` ops that use any tensor before the first that wants it."""
        places: list[int] = np.argsort(order).tolist()
        kept = _kept(step, places)
        smallest = max(1.0, SMALLEST_SHARE * int(kept.max(initial=0)))
        gaps = _gaps(step, places, smallest)
        chains = Chains(step, places, gaps.keys())
        busy = [place for place, op in enumerate(order) if step.used[op]]
        index = {place: i for i, place in enumerate(busy)}
        made = sorted(gaps, key=lambda n: (_last_write(step, places, n, gaps[n][0]), n))
        return cls(
            step,
            order,
            kept,
            tuple(
                Candidate(
                    n,
                    step.buffers[n].bytes,
                    left,
                    wanted,
                    busy[max(0, index[wanted] - lead)],
                    chains.of(n, wanted),
                )
                for n in made
                for left, wanted in [gaps[n]]
            ),
        )

    @cached_property
    def places(self) -> Bytes:
        """Of each op."""
        return np.argsort(self.order)

    def late_uses(self, candidate: Candidate) -> list[int]:
        """The ops that use a tensor once it is there again."""
        uses = self.step.buffers[candidate.buffer].uses
        return [use for use in uses if self.places[use] >= candidate.wanted]

    @cached_property
    def taken(self) -> Bytes:
        """Of what is held during each op, by its place: what it takes for itself, buffers and scratch."""
        taken = np.array([self.step.ops[op].scratch for op in self.order], dtype=np.int64)
        for buffer in self.step.buffers:
            taken[min(self.places[use] for use in buffer.uses)] += buffer.bytes
        return taken

    @property
    def peak(self) -> int:
        """Bytes, if all is kept."""
        return int(self.kept.max(initial=0))

    def condensed(self) -> "Layout":
        """The same with the most that is held between any two places at which something goes or comes."""
        cuts = {0, *self.left + 1, *self.fetched, *self.wanted, *self.wanted + 1}
        starts = np.array(sorted(cut for cut in cuts if cut < len(self.kept)))
        index = {int(start): number for number, start in enumerate(starts)}
        candidates = [
            replace(c, left=index[c.left + 1] - 1, wanted=index[c.wanted], fetched=index[c.fetched])
            for c in self.candidates
        ]
        return Layout(self.step, self.order, np.maximum.reduceat(self.kept, starts), tuple(candidates))

    @cached_property
    def number_of(self) -> dict[int, int]:
        """By buffer: the number of its candidate."""
        return {candidate.buffer: number for number, candidate in enumerate(self.candidates)}

    @cached_property
    def needs(self) -> tuple[tuple[int, ...], ...]:
        """Of each candidate: the candidates that its chain needs."""
        chains = [candidate.chain for candidate in self.candidates]
        return tuple(tuple(self.number_of[n] for n in chain.needs) if chain else () for chain in chains)

    @cached_property
    def users(self) -> tuple[tuple[int, ...], ...]:
        """Of each candidate: the candidates whose chains need it, which were made later."""
        users: list[list[int]] = [[] for _ in self.candidates]
        for number, needs in enumerate(self.needs):
            for need in needs:
                users[need].append(number)
        return tuple(map(tuple, users))

    @cached_property
    def bytes(self) -> Bytes:
        """Of each candidate, as are the next three."""
        return np.array([candidate.bytes for candidate in self.candidates], dtype=np.int64)

    @cached_property
    def left(self) -> Bytes:
        """As `Candidate.left`."""
        return np.array([candidate.left for candidate in self.candidates], dtype=np.int64)

    @cached_property
    def wanted(self) -> Bytes:
        """As `Candidate.wanted`."""
        return np.array([candidate.wanted for candidate in self.candidates], dtype=np.int64)

    @cached_property
    def fetched(self) -> Bytes:
        """As `Candidate.fetched`."""
        return np.array([candidate.fetched for candidate in self.candidates], dtype=np.int64)

    @cached_property
    def temporary(self) -> Bytes:
        """Bytes that the chain of each candidate takes besides."""
        chains = [candidate.chain for candidate in self.candidates]
        return np.array([chain.temporary if chain else 0 for chain in chains], dtype=np.int64)

    def needed(self, methods: Bytes) -> Bytes:
        """Of each candidate: the place of the op before which it is there again at the latest.

        What a chain needs is there when the chain runs. It was made before, so later ones are known first.
        """
        found = self.wanted.copy()
        for number in reversed(range(len(self.candidates))):
            found[number] = self.needed_at(number, methods, found)
        return found

    def needed_at(self, number: int, methods: Bytes, needed: Bytes) -> int:
        """That of one, where those that were made later are known."""
        runs = [int(needed[user]) for user in self.users[number] if methods[user] == RECOMPUTE]
        return min([self.candidates[number].wanted, *runs])

    def returns(self, methods: Bytes, needed: Bytes) -> Bytes:
        """Of each candidate: the place of the op before which it is there again; of what is kept, as `needed`."""
        return np.where(methods == OFFLOAD, np.minimum(needed, self.fetched), needed)

    def held(self, methods: Bytes, returns: Bytes) -> Bytes:
        """Bytes held during each op; what goes is free from the op after on, and chains run beside an op."""
        away = (methods != KEEP) & (returns > self.left + 1)
        change = np.zeros(len(self.kept) + 1, dtype=np.int64)
        np.subtract.at(change, self.left[away] + 1, self.bytes[away])
        np.add.at(change, returns[away], self.bytes[away])
        held = self.kept + np.cumsum(change[:-1])
        again = away & (methods == RECOMPUTE)
        np.add.at(held, returns[again], self.temporary[again])
        return held

    def relieve(self, held: Bytes, number: int, method: int, needed: int, sign: int = 1) -> None:
        """Take from `held` what a candidate leaves free by a method, or give it back."""
        candidate = self.candidates[number]
        back = min(needed, candidate.fetched) if method == OFFLOAD else needed
        if method != KEEP and back > candidate.left + 1:
            held[candidate.left + 1 : back] -= sign * candidate.bytes
            if method == RECOMPUTE and candidate.chain:
                held[back] += sign * candidate.chain.temporary


def _last_write(step: TrainingStep, places: Sequence[int], number: int, left: int) -> int:
    """The op after which a buffer holds what is away from it later."""
    return max(writer for writer in step.buffers[number].writers if places[writer] <= left)


def _kept(step: TrainingStep, places: Sequence[int]) -> Bytes:
    change = np.zeros(len(places) + 1, dtype=np.int64)
    for buffer in step.buffers:
        used = [places[use] for use in buffer.uses]
        change[min(used)] += buffer.bytes
        change[len(places) if buffer.stays else max(used) + 1] -= buffer.bytes
    scratch = np.zeros(len(places), dtype=np.int64)
    for place, op in zip(places, step.ops, strict=True):
        scratch[place] = op.scratch
    return step.resident + np.cumsum(change[:-1]) + scratch


def _gaps(step: TrainingStep, places: Sequence[int], smallest: float) -> dict[int, tuple[int, int]]:
    """By buffer: the last place that counts as forward and the first as backward, if an op lies between.

    What may run in either pass counts as that which leaves the buffer unused for longer. What outlives the step
    goes nowhere: it is held by who asked for it, too. Nor does what is given out in slices: a copy of one would
    leave the others, which hold all of the buffer. Nor does what a branch uses: a copy would wait for its op.
    """
    gaps: dict[int, tuple[int, int]] = {}
    for number, buffer in enumerate(step.buffers):
        in_branch = any(step.ops[use].in_branch for use in buffer.uses)
        if buffer.bytes >= smallest and not (buffer.stays or buffer.slices or in_branch):
            uses = sorted((places[use], step.ops[use].phase) for use in buffer.uses)
            left, wanted = max(_splits(uses), key=lambda split: split[1] - split[0], default=(0, 0))
            if left + 1 < wanted:
                gaps[number] = left, wanted
    return gaps


def _splits(uses: Sequence[tuple[int, Phase]]) -> Iterator[tuple[int, int]]:
    """Of uses by their places: those next to each other between which none but backward ones begin."""
    last = max((n for n, (_, phase) in enumerate(uses) if phase is Phase.FORWARD), default=0)
    first = min((n for n, (_, phase) in enumerate(uses) if phase is Phase.BACKWARD), default=len(uses) - 1)
    return ((left, wanted) for (left, _), (wanted, _) in pairwise(uses[last : first + 1]))
