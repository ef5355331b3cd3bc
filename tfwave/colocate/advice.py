"""What a plan promises for jobs that were captured."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tfwave.colocate.profile import constant_bytes
from tfwave.errors import PlanError
from tfwave.memory.colocation import Colocation, JobStep, Policy, colocate, saves_beside
from tfwave.memory.groups import check_split_size, levelled
from tfwave.memory.slots import can_finish
from tfwave.plan.fingerprint import graph_print
from tfwave.plan.groups import GroupedJob, Groups, NodeGroup, OwnStep, nothing_done
from tfwave.sizes import in_words

_PARTS = 100


@dataclass(frozen=True)
class Advice:
    """Whether jobs fit into a memory together, and how.

    Attributes:
        steps: of each job, as captured.
        limit_bytes: of the memory.
        kept_bytes: of that, what is left free for new values of variables and for second instances (`kept_bytes`).
        plan: how they run; None where they do not fit.
        why: they do not fit; empty where they do.
    """

    steps: tuple[JobStep, ...]
    limit_bytes: int
    kept_bytes: int
    plan: Colocation | None
    why: str = ""

    @property
    def fits(self) -> bool:
        """Is there a plan?"""
        return self.plan is not None

    @property
    def groups(self) -> Groups | None:
        """The same as a section of a plan."""
        if self.plan is None:
            return None
        prints = {step.name: graph_print(step.view) for step in self.steps}
        own = {step.name: OwnStep(graph_print(step.own), step.fetches) for step in self.steps if step.own}
        return self.plan.section(prints, own)

    @cached_property
    def whole(self) -> Mapping[str, GroupedJob]:
        """Each job with its step in one group, by name."""
        return {
            step.name: step.in_groups(levelled(step.view, step.profile, step.costs).whole)
            for step in self.steps
        }

    @cached_property
    def saves_beside(self) -> bool:
        """Would the steps save time side by side, were there room for all of them?"""
        return saves_beside(tuple(self.whole.values()))

    @cached_property
    def batch_scale(self) -> float:
        """How many times as large as captured all batches could be, at most; an estimate (see `largest_scale`)."""
        return largest_scale(list(self.whole.values()), self.limit_bytes - self.kept_bytes)

    @cached_property
    def alone_scales(self) -> Mapping[str, float]:
        """The same of each job, if it had the memory for itself."""
        kept = {step.name: kept_bytes(step) for step in self.steps}
        return {name: largest_scale([job], self.limit_bytes - kept[name]) for name, job in self.whole.items()}


def kept_bytes(step: JobStep) -> int:
    """What `tfwave.colocate.run` leaves free for a job besides: see there.

    Its variables once more, whose new values the pool gives up to twice what they need, and the constants of the
    step's instance with barriers.
    """
    return step.profile.resident + constant_bytes(step.view.nodes)


def advise(
    steps: Sequence[JobStep],
    limit_bytes: int,
    policy: Policy = Policy.SEARCH,
    split_size: int | None = None,
) -> Advice:
    """Plan jobs into a memory, with what `tfwave.colocate.run` keeps free there; that they do not fit is an answer.

    `policy` and `split_size` are as in `tfwave.memory.colocation.colocate`.

    Raises:
        PlanError: no job, two of one name, or a split size below 1.
        GraphError: as `node_groups`.
        MissingCost: as `node_groups`.
    """
    if split_size is not None:
        check_split_size(split_size)
    nothing_done([GroupedJob(step.name, (), 0) for step in steps])
    if not steps:
        raise PlanError("there is no job to plan: give one or more")
    kept = sum(map(kept_bytes, steps))
    try:
        return Advice(
            tuple(steps), limit_bytes, kept, colocate(steps, _above(kept, limit_bytes), policy, split_size)
        )
    except PlanError as err:
        return Advice(tuple(steps), limit_bytes, kept, None, str(err))


def _above(kept: int, limit_bytes: int) -> int:
    if kept >= limit_bytes:
        raise PlanError(
            f"{in_words(kept)} are kept for the jobs' variables and constants alone, and the limit is "
            f"{in_words(limit_bytes)}: raise it"
        )
    return limit_bytes - kept


def largest_scale(jobs: Sequence[GroupedJob], limit_bytes: int) -> float:
    """By how much all that the steps hold for a while could grow, so that they fit one after the other at least.

    An estimate of the largest batch: what is resident stays, and all else is taken to grow with the batch, as
    activations do. Gradients of variables do not: the true batch is larger, the more so the more they are of it.
    Two digits after the point, rounded down; 0 where even what is resident does not fit, infinite where a step
    holds nothing else.
    """
    ordered = sorted(jobs, key=lambda job: job.name)
    if not any(job.needs[0] for job in ordered):
        return math.inf if _can_finish(ordered, 0, limit_bytes) else 0.0
    low, high = 0, _PARTS
    while _can_finish(ordered, high, limit_bytes):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _can_finish(ordered, middle, limit_bytes) else (low, middle)
    return low / _PARTS


def _can_finish(jobs: Sequence[GroupedJob], parts: int, limit_bytes: int) -> bool:
    scaled = [replace(job, groups=tuple(_scaled(group, parts) for group in job.groups)) for job in jobs]
    return can_finish(scaled, nothing_done(scaled), limit_bytes)


def _scaled(group: NodeGroup, parts: int) -> NodeGroup:
    """Rounded up."""
    return replace(
        group,
        net=_part(group.net, parts),
        transient=_part(group.transient, parts),
        piece=_part(group.piece, parts),
    )


def _part(size: int, parts: int) -> int:
    return -(-size * parts // _PARTS)
