"""Fits into a pool in one piece, as TensorFlow fills it: what is free there may lie apart."""

from collections.abc import Iterator

from tfwave.memory.pool.growing import bfc_in_one_region
from tfwave.offload.fit import Fit, Policy, away_fits, fit_step
from tfwave.offload.placed import planned_lives
from tfwave.offload.section import memory_section
from tfwave.offload.step import TrainingStep
from tfwave.plan.fingerprint import NO_GRAPH

_LESS = 0.95
"""Where a fit takes more of the pool than there is, the next one holds at most this share of it."""


def fit_pool(step: TrainingStep, limit: int, usable: int, policy: Policy) -> Fit | None:
    """The first fit that a pool of `limit` bytes can serve, of those that hold at most `usable` bytes, then fewer.

    None if the policy finds none. The solver is asked once, and greedy for what holds less; the last that is tried
    has all away that can be.
    """
    fits = (fit for fit in _tried(step, usable, policy) if pool_bytes(fit) <= limit)
    return next(fits, None)


def pool_bytes(fit: Fit) -> int:
    """What the step takes of a pool, op after op, with what lies apart and what comes as padding."""
    step, peak = fit.layout.step, fit.forecast.peak
    lives = planned_lives(step, memory_section(fit, NO_GRAPH, peak, peak))
    return step.resident + bfc_in_one_region(lives).size


def _tried(step: TrainingStep, usable: int, policy: Policy) -> Iterator[Fit]:
    held, by = usable, policy
    while (fit := fit_step(step, held, by)) is not None:
        yield fit
        if policy is Policy.DYMEM:
            return
        held, by = int(min(held, fit.forecast.peak) * _LESS), Policy.GREEDY
    yield from (fit for fit in away_fits(step) if fit.forecast.peak <= usable)
