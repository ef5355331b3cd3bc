"""Whether a captured step fits, and all that one wants to know then."""

from dataclasses import dataclass, replace
from functools import cached_property

from tfwave.errors import PlanError
from tfwave.memory.slots import limit_for, room
from tfwave.offload.batch import LargestBatch, largest_batch
from tfwave.offload.captured import CapturedStep
from tfwave.offload.fit import Fit, Policy, away_fits
from tfwave.offload.pooled import fit_pool, needed_bytes
from tfwave.offload.section import memory_section
from tfwave.plan.fingerprint import graph_print
from tfwave.plan.memory import Memory
from tfwave.plan.plan import Plan
from tfwave.sizes import in_words


@dataclass(frozen=True)
class Question:
    """Whether and how a captured step fits into a memory, by a policy; `other` is it at another batch."""

    captured: CapturedStep
    other: CapturedStep | None
    limit: int
    policy: Policy = Policy.GREEDY

    @property
    def usable(self) -> int:
        """Of the limit, what the step may take by the model: nobody knows how all its ops interleave."""
        return room(self.limit, 2)

    @cached_property
    def fit(self) -> Fit | None:
        """None if there is none that a pool of so many bytes can serve."""
        return fit_pool(self.captured.step, self.usable, self.policy)

    @cached_property
    def needed(self) -> int | None:
        """What a pool must have for the fit; None if there is none."""
        return None if self.fit is None else needed_bytes(self.fit)

    @cached_property
    def least(self) -> int:
        """The least limit that is known to do, with the room that a pool needs besides."""
        needed = [*map(needed_bytes, away_fits(self.captured.step)), self.needed]
        return limit_for(min(each for each in needed if each is not None), 2)

    @cached_property
    def batch(self) -> LargestBatch:
        """What would fit."""
        other = self.other.step if self.other else None
        return largest_batch(self.captured.step, self.usable, other)

    @cached_property
    def section(self) -> Memory | None:
        """The fit, for a plan, which promises what it takes of a pool."""
        if self.fit is None or self.needed is None:
            return None
        section = memory_section(self.fit, graph_print(self.captured.view), self.limit, self.least)
        return replace(section, peak_bytes=self.needed)

    def plan(self) -> Plan:
        """The fit as a plan.

        Raises:
            PlanError: it does not fit.
        """
        if self.section is None:
            raise PlanError(f"there is nothing to plan: {self.refusal}")
        return Plan(memory=self.section)

    @property
    def refusal(self) -> str:
        """Why it does not fit."""
        if self.limit < self.least:
            return (
                f"it does not fit into {in_words(self.limit)}: it needs {in_words(self.least)} at the least"
            )
        return f"the policy {self.policy} makes it fit into {in_words(self.limit)} in no order: take another policy"
