"""What a job gets whose steps are promised in time: its memory is kept for it, so that it never waits for any."""

import logging
import math
from collections.abc import Sequence

from tfwave.errors import PlanError
from tfwave.memory.colocation import Colocation
from tfwave.memory.schedule import CONTENTION
from tfwave.memory.slots import SHARED_MARGIN
from tfwave.plan.groups import GroupedJob, Turn
from tfwave.sizes import in_words

_log = logging.getLogger("tfwave")


def kept_bytes(job: GroupedJob) -> int:
    """What others leave to it: its peak, with the margins of jobs side by side (`Rooms`)."""
    return math.ceil((job.peak + job.piece) / (1 - SHARED_MARGIN))


def check_alone(job: GroupedJob, latency_at_most: float) -> None:
    """Refuse a promise that the job cannot keep even alone.

    Raises:
        PlanError: its step takes longer.
    """
    if job.seconds > latency_at_most:
        raise PlanError(
            f"a step of the job '{job.name}' takes {job.seconds:.3g} s alone, over its latency_at_most of "
            f"{latency_at_most:.3g} s: allow more, or make its step smaller"
        )


def no_room_kept(job: GroupedJob, left: int) -> PlanError:
    """Why a job is refused beside those that run."""
    return PlanError(
        f"latency_at_most of the job '{job.name}' keeps {in_words(kept_bytes(job))} for it, which leaves the jobs "
        f"that run too little of {in_words(left)}: raise the limit, or add it without latency_at_most"
    )


def joined(plan: Colocation | None, kept: Sequence[GroupedJob], limit_bytes: int) -> Colocation | None:
    """A plan for the others in what is left, and behind it a slot for each job whose memory is kept."""
    if not kept:
        return plan
    jobs, slots = (plan.jobs, plan.slots) if plan else ((), ())
    own = tuple([(Turn(job.name, group),) for job in kept for group in range(len(job.groups))])
    return Colocation(tuple(sorted((*jobs, *kept), key=lambda job: job.name)), (*slots, *own), limit_bytes)


def warn_beside(job: GroupedJob, others: Sequence[GroupedJob], latency_at_most: float) -> None:
    """Say so where the cores that all share let the model expect more than was promised."""
    busy = job.compute_share + math.fsum(other.compute_share for other in others)
    expected = job.seconds * (1 + CONTENTION * max(0.0, busy - 1))
    if expected > latency_at_most:
        _log.warning(
            "tfwave: a step of the job '%s' takes about %.3g s beside all others by the model, over its "
            "latency_at_most of %.3g s",
            job.name,
            expected,
            latency_at_most,
        )


def p95(seconds: Sequence[float]) -> float | None:
    """That which 95 of 100 keep to: the least that as many do; None of none."""
    ordered = sorted(seconds)
    return ordered[math.ceil(0.95 * len(ordered)) - 1] if ordered else None
