"""Slots in which jobs follow each other as waves, as close as the memory allows."""

from collections.abc import Collection, Mapping, Sequence

from tfwave.memory.schedule import GroupedJob, Slot, Turn, nothing_done, slot_peak, slot_peaks

ALONE_MARGIN = 0.02
"""Of the limit, where one job runs: replaying a traced step gives the peak that was measured; later steps of seven
models came within 1 % of it on one thread, but for one of a BERT-like model (2.1 %)."""

SHARED_MARGIN = 0.1
"""Of the limit, where jobs run side by side: modelled peaks of barriered schedules lay within -9 and +11 % of the
measured ones, as nobody knows how the ops of two groups interleave. Chosen once, for all models."""


def room(limit_bytes: int, running: int) -> int:
    """The bytes that `running` jobs in one slot may hold by the model, so that they hold no more than the limit."""
    return int(limit_bytes * (1 - (SHARED_MARGIN if running > 1 else ALONE_MARGIN)))


def fits(jobs: Sequence[GroupedJob], slots: Sequence[Slot], limit_bytes: int) -> bool:
    """Do all slots keep to their room?"""
    peaks = zip(slots, slot_peaks(jobs, slots), strict=True)
    return all(peak <= room(limit_bytes, len(slot)) for slot, peak in peaks)


def can_finish(jobs: Sequence[GroupedJob], done: Mapping[str, int], limit_bytes: int) -> bool:
    """Can the jobs be finished one after the other, in their order, without two of them running side by side?"""
    held = sum(job.resident + job.held[done[job.name]] for job in jobs)
    for job in jobs:
        before = job.held[done[job.name]]
        if held - before + job.needs[done[job.name]] > room(limit_bytes, 1):
            return False
        held += job.held[-1] - before
    return True


def waves(jobs: Sequence[GroupedJob], offset: int, limit_bytes: int) -> tuple[Slot, ...]:
    """Each job starts `offset` slots after the one before it, or later; the first that is not done never waits.

    The others run their next group beside it where the slot has room for it, and if all jobs can still be finished
    one after the other from there on: no job ever waits for memory that another will not free. The jobs must be
    able to finish so from the start.
    """
    done = nothing_done(jobs)
    starts = {job.name: number * offset for number, job in enumerate(jobs)}
    slots: list[Slot] = []
    while left := [job for job in jobs if done[job.name] < len(job.groups)]:
        running = [left[0].name]
        for job in left[1:]:
            if len(slots) >= starts[job.name] and _can_join(jobs, done, (*running, job.name), limit_bytes):
                running.append(job.name)
        slots.append(tuple([Turn(name, done[name]) for name in running]))
        for name in running:
            done[name] += 1
    return tuple(slots)


def _can_join(
    jobs: Sequence[GroupedJob], done: Mapping[str, int], running: Collection[str], limit_bytes: int
) -> bool:
    if slot_peak(jobs, done, running) > room(limit_bytes, len(running)):
        return False
    after = {name: count + (name in running) for name, count in done.items()}
    return can_finish(jobs, after, limit_bytes)
