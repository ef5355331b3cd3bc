"""Which jobs fit into a memory together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tfwave.errors import GraphError, MissingCost, PlanError
from tfwave.memory.colocation import Colocation, JobStep, colocate, is_worth
from tfwave.plan.groups import GroupedJob

_REFUSALS = (PlanError, GraphError, MissingCost)


@dataclass(frozen=True)
class Fit:
    """A plan for the jobs that fit, None if none does; and why each of the others was left out, by name."""

    plan: Colocation | None
    left_out: Mapping[str, Exception]


@dataclass(frozen=True)
class Placed:
    """A job that runs in its groups; and its step, which can be cut in another way, if that is known."""

    job: GroupedJob
    step: JobStep | None


def fit(steps: Sequence[JobStep], limit_bytes: int, cut: Sequence[GroupedJob] = ()) -> Fit:
    """Plan jobs into a memory, beside others that keep their groups.

    1. All of them, if they fit.
    2. Else one after the other is taken that fits beside those before it.
    """
    try:
        return Fit(colocate(steps, limit_bytes, cut=cut), {})
    except _REFUSALS:
        return _one_by_one(steps, limit_bytes, cut)


def fit_beside(placed: Sequence[Placed], steps: Sequence[JobStep], limit_bytes: int) -> Fit:
    """Plan jobs that come while others run, which are never left out for them.

    1. Those that run keep their groups.
    2. All are cut anew where that lets more jobs in, or saves so much time that it is worth it.
    """
    kept = fit(steps, limit_bytes, [each.job for each in placed])
    if not any(each.step for each in placed):
        return kept
    known = [each.step for each in placed if each.step is not None]
    anew = fit([*known, *steps], limit_bytes, [each.job for each in placed if each.step is None])
    if anew.plan is None or any(step.name in anew.left_out for step in known):
        return kept
    if kept.plan is None or len(anew.left_out) < len(kept.left_out):
        return anew if len(anew.left_out) < len(kept.left_out) else kept
    return anew if is_worth(anew.plan.seconds, kept.plan.seconds) else kept


def fit_behind(
    placed: Sequence[Placed],
    steps: Sequence[JobStep],
    backgrounds: Sequence[Placed],
    steps_behind: Sequence[JobStep],
    limit_bytes: int,
) -> Fit:
    """Plan jobs, and backgrounds behind them, which they are not cut for; `placed` and `backgrounds` run.

    1. The jobs as if there were no backgrounds; then these beside them, in groups that may be others.
    2. Where one that runs has no room so, all are as any.
    """
    first = fit_beside(placed, steps, limit_bytes) if steps else fit([], limit_bytes, [p.job for p in placed])
    again = [each.step for each in backgrounds if each.step is not None]
    kept = [each.job for each in backgrounds if each.step is None]
    jobs = first.plan.jobs if first.plan else ()
    last = fit([*again, *steps_behind], limit_bytes, [*jobs, *kept])
    if any(step.name in last.left_out for step in again) or (last.plan is None and (kept or again)):
        return fit_beside([*placed, *backgrounds], [*steps, *steps_behind], limit_bytes)
    return Fit(last.plan or first.plan, {**first.left_out, **last.left_out})


def _one_by_one(steps: Sequence[JobStep], limit_bytes: int, cut: Sequence[GroupedJob]) -> Fit:
    """Case 2."""
    plan: Colocation | None = None
    taken: list[JobStep] = []
    left_out: dict[str, Exception] = {}
    for step in steps:
        try:
            plan = colocate([*taken, step], limit_bytes, cut=cut)
            taken.append(step)
        except _REFUSALS as error:
            left_out[step.name] = error
    return Fit(plan, left_out)
