"""Which jobs fit into a memory together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tfwave.errors import GraphError, MissingCost, PlanError
from tfwave.memory.colocation import Colocation, JobStep, colocate

_REFUSALS = (PlanError, GraphError, MissingCost)


@dataclass(frozen=True)
class Fit:
    """A plan for the jobs that fit, None if none does; and why each of the others was left out, by name."""

    plan: Colocation | None
    left_out: Mapping[str, Exception]


def fit(steps: Sequence[JobStep], limit_bytes: int) -> Fit:
    """Plan jobs into a memory.

    1. All of them, if they fit.
    2. Else one after the other is taken that fits beside those before it.
    """
    try:
        return Fit(colocate(steps, limit_bytes), {})
    except _REFUSALS:
        return _one_by_one(steps, limit_bytes)


def _one_by_one(steps: Sequence[JobStep], limit_bytes: int) -> Fit:
    """Case 2."""
    plan: Colocation | None = None
    taken: list[JobStep] = []
    left_out: dict[str, Exception] = {}
    for step in steps:
        try:
            plan = colocate([*taken, step], limit_bytes)
            taken.append(step)
        except _REFUSALS as error:
            left_out[step.name] = error
    return Fit(plan, left_out)
