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
