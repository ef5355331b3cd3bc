"""The planner of co-located jobs: how finely each is cut, and how far apart they start."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import combinations

from tfwave.cost.table import Costs
from tfwave.errors import PlanError
from tfwave.graph.view import GraphView
from tfwave.memory.groups import LevelledStep, levelled
from tfwave.memory.pairing import algorithm_one
from tfwave.memory.profile import MemoryProfile
from tfwave.memory.schedule import beside_seconds, in_turn, modelled_peak, modelled_seconds
from tfwave.memory.slots import Rooms, can_finish, fits, room, staggered_slots
from tfwave.plan.fingerprint import GraphPrint
from tfwave.plan.groups import (
    UNKNOWN_SHARE,
    GroupedJob,
    Groups,
    NodeGroup,
    OwnStep,
    PlannedJob,
    Slot,
    check_shares,
    check_slots,
    nothing_done,
    one_at_a_time,
)
from tfwave.sizes import in_words

FINENESSES = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""The planner tries to cut each job's rise to its peak into so many parts; 0 leaves its step in one group."""

WORTH = 0.05
"""Side by side must save this share of the time in turn by the model: it takes barriers, and more memory."""

_ROUNDING = 1e-9


class Policy(StrEnum):
    """Who decides which node groups run side by side."""

    SEARCH = "search"
    """tfwave's own: each job as the first, all offsets, and in turn where side by side saves too little."""
    ALGORITHM_1 = "algorithm1"
    """Waterwave's (section 4.2), mended: see `tfwave.memory.pairing`."""


_Candidate = tuple[Sequence[GroupedJob], tuple[Slot, ...]]


@dataclass(frozen=True)
class JobStep:
    """One step of a job that shares a device with others: its graph, and what its ops take, in bytes and seconds.

    `slowed_at_most` and `compute_share` are as in `GroupedJob`. `besides` are the bytes that the job holds in the
    pool beside what its profile tells: constants, and what the pool gives variables beyond what they need. `own` is
    the step in the program's own graph, where that is known, and `fetches` what it runs of it.

    Raises:
        PlanError: as `check_shares`.
    """

    name: str
    view: GraphView
    profile: MemoryProfile
    costs: Costs
    slowed_at_most: float | None = None
    compute_share: float = UNKNOWN_SHARE
    besides: int = 0
    own: GraphView | None = None
    fetches: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse shares that are none."""
        check_shares(self.name, self.slowed_at_most, self.compute_share)

    def in_groups(self, groups: tuple[NodeGroup, ...]) -> GroupedJob:
        """The job, with its step in these groups."""
        return GroupedJob(self.name, groups, self.resident, self.slowed_at_most, self.compute_share)

    @property
    def resident(self) -> int:
        """The bytes that the job holds between its steps."""
        return self.profile.resident + self.besides


@dataclass(frozen=True)
class Colocation:
    """The slots of one step of each job, with what they take by the model.

    Raises:
        PlanError: a group without its turn or out of turn, or slots without room under the limit.
    """

    jobs: tuple[GroupedJob, ...]
    slots: tuple[Slot, ...]
    limit_bytes: int

    def __post_init__(self) -> None:
        """Hold what every user of the slots relies on."""
        check_slots(self.jobs, self.slots)
        if not fits(self.jobs, self.slots, self.limit_bytes):
            raise PlanError(
                f"the slots take {in_words(self.peak_bytes)} by the model, which leaves too little of the limit of "
                f"{in_words(self.limit_bytes)}: plan again, or raise the limit"
            )

    @cached_property
    def peak_bytes(self) -> int:
        """The most that the jobs hold together at once; the margin is not in it."""
        return modelled_peak(self.jobs, self.slots)

    @cached_property
    def seconds(self) -> float:
        """In which each job makes one step."""
        return modelled_seconds(self.jobs, self.slots)

    @classmethod
    def of(cls, groups: Groups) -> "Colocation":
        """What a plan says.

        Raises:
            PlanError: the slots have no room under its limit.
        """
        return cls(tuple([planned.job for planned in groups.jobs]), groups.slots, groups.limit_bytes)

    def section(self, graphs: Mapping[str, GraphPrint], own: Mapping[str, OwnStep] | None = None) -> Groups:
        """As a plan says it; `graphs` are the prints of what the jobs run, by name, and `own` their own steps."""
        steps = own or {}
        return Groups(
            limit_bytes=self.limit_bytes,
            jobs=tuple([PlannedJob(job, graphs[job.name], steps.get(job.name)) for job in self.jobs]),
            slots=self.slots,
            peak_bytes=self.peak_bytes,
            seconds=self.seconds,
            in_turn_seconds=self.in_turn_seconds,
        )

    @property
    def in_turn_seconds(self) -> float:
        """The same, one job after the other."""
        return modelled_seconds(self.jobs, in_turn(self.jobs))

    @property
    def is_in_turn(self) -> bool:
        """Does nothing run side by side?"""
        return one_at_a_time(self.slots)

    def slowed(self, job: GroupedJob) -> float:
        """By what share a job's steps come slower than if it ran alone."""
        return self.seconds / job.seconds - 1 if job.seconds else 0.0

    @cached_property
    def turns(self) -> tuple[tuple[str, str], ...]:
        """Pairs of jobs of which one runs at a time: no slot has both, and it saves too little, or nothing does."""
        together = {frozenset(pair) for slot in self.slots for pair in combinations([t.job for t in slot], 2)}
        return tuple(
            [
                (one.name, other.name)
                for one, other in combinations(self.jobs, 2)
                if frozenset({one.name, other.name}) not in together
                and (self.is_in_turn or not saves_beside((one, other)))
            ]
        )

    @property
    def too_slow(self) -> tuple[GroupedJob, ...]:
        """The jobs that are slowed by more than they allow."""
        limited = ((job, job.slowed_at_most) for job in self.jobs if job.slowed_at_most is not None)
        return tuple([job for job, most in limited if self.slowed(job) > most + _ROUNDING])


def colocate(
    steps: Sequence[JobStep],
    limit_bytes: int,
    policy: Policy = Policy.SEARCH,
    split_size: int | None = None,
    *,
    cut: Sequence[GroupedJob] = (),
) -> Colocation:
    """The slots that take the least time of those that keep to the limit, with a margin fixed in advance.

    1. "search" tries several finenesses of node groups, each job as the first, and all offsets; equal times go to
       fewer slots, then to the lower peak, then to what was tried first. One after the other is what is left where
       nothing else fits, or where it saves less than `WORTH`, as steps that keep the compute units busy slow each
       other; unless a job does not allow that. Where that holds of some pairs only, these are tried apart from
       each other.
    2. "algorithm1" tries the same finenesses, but for whole steps, and takes the fastest, gain or not.

    Each job makes one step in each round of the slots.

    Args:
        steps: one of each job.
        limit_bytes: of the memory.
        policy: see above.
        split_size: the net bytes at which a node group ends (Waterwave, section 4.2), whatever would be tried.
        cut: jobs beside them that keep their groups.

    Raises:
        PlanError: no job, or two of one name; a job does not fit, alone or beside what the others hold between
            their steps; no way fits in these node groups, or none in which each job is slowed by no more than it
            allows; a split size below 1. Names the job.
        GraphError: as `node_groups`.
        MissingCost: as `node_groups`.
    """
    if not steps and not cut:
        raise PlanError("there is no job to plan: give one or more")
    ordered = sorted(steps, key=lambda step: step.name)
    levels = [levelled(step.view, step.profile, step.costs) for step in ordered]
    way = _WAYS[policy]
    finenesses = way.finenesses if steps else (0,)
    tried = [[*_grouped(ordered, groups), *cut] for groups in _cuts(levels, finenesses, split_size)]
    candidates = [candidate for jobs in tried for candidate in way.slots(jobs, limit_bytes)]
    if not candidates:
        raise _no_room([*_grouped(ordered, [level.whole for level in levels]), *cut], limit_bytes)
    found = way.choose(candidates, limit_bytes)
    for job in found.too_slow:
        raise PlanError(
            f"the steps of the job '{job.name}' come {found.slowed(job):.0%} slower at the least, "
            f"and it allows {job.slowed_at_most:.0%}: run it without the others, or allow more"
        )
    return found


def _fastest(candidates: Sequence[_Candidate], limit_bytes: int) -> Colocation:
    jobs, slots = min(candidates, key=_rank)
    return Colocation(tuple(sorted(jobs, key=lambda job: job.name)), slots, limit_bytes)


def _fastest_or_in_turn(candidates: Sequence[_Candidate], limit_bytes: int) -> Colocation:
    """The fastest; or one job after the other, where that is hardly slower."""
    turns = [(jobs, slots) for jobs, slots in candidates if one_at_a_time(slots)]
    fastest, plain = (_fastest(some, limit_bytes) for some in (candidates, turns or candidates))
    return fastest if is_worth(fastest.seconds, plain.seconds) or plain.too_slow else plain


def is_worth(seconds: float, in_turn_seconds: float) -> bool:
    """Does running side by side save enough of the time in turn?"""
    return seconds <= (1 - WORTH) * in_turn_seconds


def saves_beside(jobs: Sequence[GroupedJob]) -> bool:
    """Would steps of the jobs save enough time side by side, were there room for all of them?"""
    return is_worth(beside_seconds(jobs), math.fsum(job.seconds for job in jobs))


def _cuts(
    levels: Sequence[LevelledStep], finenesses: Sequence[int], split_size: int | None
) -> Iterator[list[tuple[NodeGroup, ...]]]:
    """The steps in groups: by the split size, or in parts of each one's rise to its peak, at 0 in one group."""
    if split_size is not None:
        yield [level.cut(split_size) for level in levels]
        return
    yield from ([_cut(level, fineness) for level in levels] for fineness in finenesses)


def _cut(step: LevelledStep, fineness: int) -> tuple[NodeGroup, ...]:
    rise = sum(group.transient for group in step.whole)
    return step.cut(max(1, math.ceil(rise / fineness))) if fineness else step.whole


def _grouped(steps: Sequence[JobStep], cut: Sequence[tuple[NodeGroup, ...]]) -> list[GroupedJob]:
    return [step.in_groups(groups) for step, groups in zip(steps, cut, strict=True)]


def _staggered(jobs: Sequence[GroupedJob], limit_bytes: int) -> Iterator[_Candidate]:
    """All that is tried with jobs in their groups: jobs by who comes first, and their slots."""
    offsets = range(max(len(job.groups) for job in jobs) + 1)
    ways = (frozenset[frozenset[str]](), *_kept_apart(jobs))
    for order in _orders(jobs):
        if can_finish(order, nothing_done(order), limit_bytes):
            for apart in ways:
                yield from ((order, staggered_slots(order, offset, limit_bytes, apart)) for offset in offsets)


def _kept_apart(jobs: Sequence[GroupedJob]) -> Iterator[frozenset[frozenset[str]]]:
    """The pairs that save nothing side by side, where others do."""
    pairs = list(combinations(jobs, 2))
    apart = [pair for pair in pairs if not saves_beside(pair)]
    if apart and len(apart) < len(pairs):
        yield frozenset(frozenset({one.name, other.name}) for one, other in apart)


def _algorithm_one(jobs: Sequence[GroupedJob], limit_bytes: int) -> Iterator[_Candidate]:
    """The one way of Algorithm 1, if it keeps to the room."""
    slots = algorithm_one(jobs, Rooms.of(jobs, limit_bytes).shared)
    if fits(jobs, slots, limit_bytes) and _in_some_order(jobs, limit_bytes):
        yield jobs, slots


@dataclass(frozen=True)
class _Way:
    """A policy: how finely it cuts, the slots that it tries of jobs in groups, and which of them it takes."""

    finenesses: Sequence[int]
    slots: Callable[[Sequence[GroupedJob], int], Iterator[_Candidate]]
    choose: Callable[[Sequence[_Candidate], int], Colocation]


_WAYS = {
    Policy.SEARCH: _Way(FINENESSES, _staggered, _fastest_or_in_turn),
    Policy.ALGORITHM_1: _Way(FINENESSES[1:], _algorithm_one, _fastest),
}


def _orders(jobs: Sequence[GroupedJob]) -> Iterator[tuple[GroupedJob, ...]]:
    """Each job as the first, the others by their rise."""
    by_rise = sorted(jobs, key=lambda job: (-job.needs[0], job.name))
    for first in by_rise:
        yield (first, *(job for job in by_rise if job is not first))


def _in_some_order(jobs: Sequence[GroupedJob], limit_bytes: int) -> bool:
    """Can they be finished one after the other, as who runs them must be sure of?"""
    return any(can_finish(order, nothing_done(order), limit_bytes) for order in _orders(jobs))


def _rank(candidate: _Candidate) -> tuple[float, int, int]:
    """What a candidate is chosen by, least first: seconds to 9 digits, slots, bytes."""
    jobs, slots = candidate
    return float(f"{modelled_seconds(jobs, slots):.9g}"), len(slots), modelled_peak(jobs, slots)


def _no_room(jobs: Sequence[GroupedJob], limit_bytes: int) -> PlanError:
    """The error for jobs that do not fit: about the groups that were asked for, or the job that needs the most."""
    if _in_some_order(jobs, limit_bytes):
        return PlanError(
            f"in these node groups nothing keeps to the limit of {in_words(limit_bytes)}, and whole steps in turn "
            f"do: take another split size, or the policy '{Policy.SEARCH}'"
        )
    usable = room(limit_bytes, 1)
    limits = f"of the limit of {in_words(limit_bytes)}, {in_words(usable)} are left by the margin"
    for job in sorted(jobs, key=lambda job: (-job.peak, job.name)):
        if job.peak > usable:
            return PlanError(
                f"the job '{job.name}' alone peaks at {in_words(job.peak)} by the model, and {limits}: "
                "give it a smaller batch, or raise the limit"
            )
    largest = min(jobs, key=lambda job: (-job.needs[0], job.name))
    others = sum(job.resident for job in jobs) - largest.resident
    return PlanError(
        f"the job '{largest.name}' peaks at {in_words(largest.peak)} beside the {in_words(others)} that the other "
        f"jobs hold between their steps, and {limits}: take fewer jobs, give it a smaller batch, or raise the limit"
    )
