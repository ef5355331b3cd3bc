"""Slots in which jobs follow each other, as close as the memory allows."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tfwave.memory.schedule import slot_peak, slot_peaks
from tfwave.plan.groups import GroupedJob, Slot, Turn, nothing_done

ALONE_MARGIN = 0.02
"""This share of the limit is kept free where one whole step runs: as many outcomes as can be agree with it.

Derived from whole steps in turn of a ResNet-like and a BERT-like model, on two threads, in pools of 163 to 346 MB:
with at most 98 % of the limit by the model, 20 of 23 trials had room; with more, 20 of 24 had not. Of the BERT-like
one, all that had no room came above 98.8 %. The ResNet-like one fell short at 93 to 95 % three times, in pools of
up to 256 MB, where a convolution wants a seventh of the pool in one piece: enough is free, but lies apart.
"""

SHARED_MARGIN = 0.1
"""This share of the limit is kept free where jobs run side by side, or barriers cut the step that runs.

Modelled peaks of barriered schedules lay within -9 and +11 % of the measured ones, as nobody knows how their ops
interleave. Of 6 trials of cut steps with 94 to 98 % of the limit by the model 3 had no room; of 14 with 85 to 90 %
all had (the same models, pools of 174 to 395 MB).
"""


@dataclass(frozen=True)
class Rooms:
    """The bytes that jobs may hold in a slot by the model, so that they hold no more than a limit.

    Attributes:
        alone: where one of them runs.
        shared: where several do. A large piece more has room there: two ops that each ask for much at once, such as
            the gradients of convolutions, may do so at the same time.
    """

    alone: int
    shared: int

    @classmethod
    def of(cls, jobs: Sequence[GroupedJob], limit_bytes: int) -> "Rooms":
        """Nobody knows how ops interleave either where barriers cut a step: `alone` is then as `shared`."""
        shared = room(limit_bytes, 2) - max((job.piece for job in jobs), default=0)
        is_cut = any(len(job.groups) > 1 for job in jobs)
        return cls(shared if is_cut else room(limit_bytes, 1), shared)

    def slot(self, running: int) -> int:
        """Of a slot in which so many jobs run."""
        return self.shared if running > 1 else self.alone


def room(limit_bytes: int, running: int) -> int:
    """The bytes that `running` jobs in one slot may hold by the model, so that they hold no more than the limit."""
    return int(limit_bytes * _share(running))


def limit_for(held_bytes: int, running: int) -> int:
    """The least limit of which `running` jobs in one slot may hold so many bytes."""
    limit = math.floor(held_bytes / _share(running))
    while room(limit, running) < held_bytes:
        limit += 1
    return limit


def _share(running: int) -> float:
    return 1 - (SHARED_MARGIN if running > 1 else ALONE_MARGIN)


def fits(jobs: Sequence[GroupedJob], slots: Sequence[Slot], limit_bytes: int) -> bool:
    """Do all slots keep to their room?"""
    rooms = Rooms.of(jobs, limit_bytes)
    peaks = zip(slots, slot_peaks(jobs, slots), strict=True)
    return all(peak <= rooms.slot(len(slot)) for slot, peak in peaks)


def can_finish(jobs: Sequence[GroupedJob], done: Mapping[str, int], limit_bytes: int) -> bool:
    """Can the jobs be finished one after the other, in their order, without two of them running side by side?"""
    return _can_finish(jobs, done, Rooms.of(jobs, limit_bytes).alone)


def _can_finish(jobs: Sequence[GroupedJob], done: Mapping[str, int], alone: int) -> bool:
    held = sum(job.resident + job.held[done[job.name]] for job in jobs)
    for job in jobs:
        before = job.held[done[job.name]]
        if held - before + job.needs[done[job.name]] > alone:
            return False
        held += job.held[-1] - before
    return True


def staggered_slots(
    jobs: Sequence[GroupedJob], offset: int, limit_bytes: int, apart: Collection[frozenset[str]] = ()
) -> tuple[Slot, ...]:
    """Each job starts `offset` slots after the one before it, or later; the first that is not done never waits.

    The others run their next group beside it where the slot has room for it, and if all jobs can still be finished
    one after the other from there on: no job ever waits for memory that another will not free. The jobs must be
    able to finish so from the start. Pairs that are kept `apart` share no slot.
    """
    done = nothing_done(jobs)
    rooms = Rooms.of(jobs, limit_bytes)
    starts = {job.name: number * offset for number, job in enumerate(jobs)}
    slots: list[Slot] = []
    while left := [job for job in jobs if done[job.name] < len(job.groups)]:
        running = [left[0].name]
        for job in left[1:]:
            beside = not any(frozenset({job.name, name}) in apart for name in running)
            if (
                beside
                and len(slots) >= starts[job.name]
                and _can_join(jobs, done, (*running, job.name), rooms)
            ):
                running.append(job.name)
        slots.append(tuple([Turn(name, done[name]) for name in running]))
        for name in running:
            done[name] += 1
    return tuple(slots)


def _can_join(
    jobs: Sequence[GroupedJob], done: Mapping[str, int], running: Collection[str], rooms: Rooms
) -> bool:
    if slot_peak(jobs, done, running) > rooms.slot(len(running)):
        return False
    after = {name: count + (name in running) for name, count in done.items()}
    return _can_finish(jobs, after, rooms.alone)
