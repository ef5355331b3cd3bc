"""Node groups of several jobs in slots, and what they take: bytes and seconds, by a model."""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from tfwave.errors import PlanError
from tfwave.memory.groups import NodeGroup

UNKNOWN_SHARE = 0.5
"""The compute share of a step of which it is not known: two such steps do not slow each other."""

CONTENTION = 1.4
"""What work costs that finds the compute units busy: caches, and threads that wait for each other.

Measured on two cores with steps like those of ResNet, NASNet, Inception and BERT: 1.7, 1.5, 1.2 and 1.1.
"""


@dataclass(frozen=True)
class GroupedJob:
    """One step of a job in node groups.

    `resident` are the bytes that the job holds between its steps. `slowed_at_most` is the most that its steps may
    come slower than if it ran alone, as a share of the step: at 0.25, at least 4 in the time of 5; None is no
    limit. `compute_share` is what the step keeps busy of the device's compute units when it runs alone.
    """

    name: str
    groups: tuple[NodeGroup, ...]
    resident: int
    slowed_at_most: float | None = None
    compute_share: float = UNKNOWN_SHARE

    @cached_property
    def held(self) -> tuple[int, ...]:
        """Bytes above `resident` before each group, and after the last."""
        return tuple(accumulate((group.net for group in self.groups), initial=0))

    @cached_property
    def needs(self) -> tuple[int, ...]:
        """The most bytes above `resident` from each group on, and after the last."""
        peaks = (held + group.transient for held, group in zip(self.held, self.groups, strict=False))
        needs = accumulate(reversed([*peaks, self.held[-1]]), max)
        return tuple(reversed(list(needs)))

    @property
    def peak(self) -> int:
        """The most bytes that it holds at once when it runs alone, `resident` included."""
        return self.resident + self.needs[0]

    @cached_property
    def piece(self) -> int:
        """The most bytes that one of its ops asks for at once."""
        return max((group.piece for group in self.groups), default=0)

    @property
    def seconds(self) -> float:
        """Of its step when it runs alone: its ops one after the other."""
        return math.fsum(group.seconds for group in self.groups)


@dataclass(frozen=True, order=True)
class Turn:
    """A node group, by the name of its job and its number among the job's groups."""

    job: str
    group: int


Slot = tuple[Turn, ...]
"""Groups of different jobs that run side by side; all are done before the next slot starts."""


def nothing_done(jobs: Sequence[GroupedJob]) -> dict[str, int]:
    """Of each job, how many groups are done at the start: none.

    Raises:
        PlanError: two jobs have one name.
    """
    done = {job.name: 0 for job in jobs}
    if len(done) < len(jobs):
        names = [job.name for job in jobs]
        raise PlanError(
            f"two jobs are named '{next(n for n in names if names.count(n) > 1)}': name them apart"
        )
    return done


def check_slots(jobs: Sequence[GroupedJob], slots: Iterable[Slot]) -> None:
    """Refuse slots in which not each group has its turn once, each job's in their order and in different slots.

    Raises:
        PlanError: says which group; or two jobs have one name.
    """
    done = nothing_done(jobs)
    for number, slot in enumerate(slots):
        if not slot:
            raise PlanError(f"slot {number} is empty: leave it out")
        due = {Turn(job.name, done[job.name]) for job in jobs if done[job.name] < len(job.groups)}
        for turn in slot:
            if turn not in due:
                raise PlanError(f"slot {number} has group {turn.group} of the job '{turn.job}' out of turn")
            due.remove(turn)
            done[turn.job] += 1
    for job in jobs:
        if done[job.name] != len(job.groups):
            raise PlanError(f"group {done[job.name]} of the job '{job.name}' has no slot")


def slot_peak(jobs: Iterable[GroupedJob], done: Mapping[str, int], running: Collection[str]) -> int:
    """The most bytes in a slot: the jobs that run are all at their group's peak at once, others wait.

    `done` says how many of its groups each job has behind it.
    """
    return sum(_held_at_most(job, done[job.name], runs=job.name in running) for job in jobs)


def slot_peaks(jobs: Sequence[GroupedJob], slots: Iterable[Slot]) -> Iterator[int]:
    """`slot_peak` of each slot."""
    done = nothing_done(jobs)
    for slot in slots:
        running = [turn.job for turn in slot]
        yield slot_peak(jobs, done, running)
        for name in running:
            done[name] += 1


def modelled_peak(jobs: Sequence[GroupedJob], slots: Iterable[Slot]) -> int:
    """The most bytes that the jobs hold together at once; what is resident counts from the start, for all jobs."""
    return max((sum(job.resident for job in jobs), *slot_peaks(jobs, slots)))


def modelled_seconds(jobs: Iterable[GroupedJob], slots: Iterable[Slot]) -> float:
    """Of one step of all jobs: the sum of the slots.

    A slot takes as long as its longest group; what its groups have to compute beyond that comes on top, and costs
    more as the compute units are busy.
    """
    named = {job.name: job for job in jobs}
    return math.fsum(_slot_seconds([(named[turn.job], turn.group) for turn in slot]) for slot in slots)


def in_turn(jobs: Iterable[GroupedJob]) -> tuple[Slot, ...]:
    """One job after the other, one group in each slot."""
    return tuple([(Turn(job.name, group),) for job in jobs for group in range(len(job.groups))])


def _held_at_most(job: GroupedJob, done: int, *, runs: bool) -> int:
    return job.resident + job.held[done] + (job.groups[done].transient if runs else 0)


def _slot_seconds(groups: Sequence[tuple[GroupedJob, int]]) -> float:
    """Of groups by their jobs and numbers."""
    seconds = [job.groups[number].seconds for job, number in groups]
    busy = (job.compute_share * each for (job, _), each in zip(groups, seconds, strict=True))
    return max(seconds) + CONTENTION * max(0.0, math.fsum(busy) - max(seconds))
