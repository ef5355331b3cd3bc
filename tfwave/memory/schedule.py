"""Node groups of several jobs in slots, and what they take: bytes and seconds, by a model."""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from tfwave.plan.groups import GroupedJob, Slot, Turn, nothing_done

CONTENTION = 1.4
"""Work that finds the compute units busy takes so many times as long: caches, and threads that wait for each other.

Measured on two cores with steps like those of ResNet, NASNet, Inception and BERT: 1.7, 1.5, 1.2 and 1.1.
"""


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


def beside_seconds(jobs: Iterable[GroupedJob]) -> float:
    """Of one step of each job, all side by side from the start, were there room for that."""
    return _beside([(job.compute_share, job.seconds) for job in jobs])


def in_turn(jobs: Iterable[GroupedJob]) -> tuple[Slot, ...]:
    """One job after the other, one group in each slot."""
    return tuple([(Turn(job.name, group),) for job in jobs for group in range(len(job.groups))])


def _held_at_most(job: GroupedJob, done: int, *, runs: bool) -> int:
    return job.resident + job.held[done] + (job.groups[done].transient if runs else 0)


def _slot_seconds(groups: Sequence[tuple[GroupedJob, int]]) -> float:
    """Of groups by their jobs and numbers."""
    return _beside([(job.compute_share, job.groups[number].seconds) for job, number in groups])


def _beside(shares: Sequence[tuple[float, float]]) -> float:
    """Of work by its share of the compute units and its seconds."""
    longest = max(seconds for _, seconds in shares)
    busy = math.fsum(share * seconds for share, seconds in shares)
    return longest + CONTENTION * max(0.0, busy - longest)
