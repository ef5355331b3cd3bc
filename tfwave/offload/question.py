"""Whether a captured step fits, and all that one wants to know then."""

import math
from dataclasses import dataclass, replace
from functools import cached_property

from tfwave.errors import PlanError
from tfwave.memory.slots import room
from tfwave.offload.batch import LargestBatch, largest_batch
from tfwave.offload.captured import CapturedStep
from tfwave.offload.fit import Fit, Fits, Policy
from tfwave.offload.placing import in_places, with_places
from tfwave.offload.pooled import Pooled, PoolFits, in_bfc
from tfwave.offload.section import memory_section
from tfwave.offload.threads import is_gpu
from tfwave.plan.fingerprint import graph_print
from tfwave.plan.memory import Memory
from tfwave.plan.plan import Plan
from tfwave.sizes import MIB, in_words, limit_in_words


@dataclass(frozen=True)
class Question:
    """Whether and how a captured step fits into a memory, by a policy.

    Attributes:
        captured: the step.
        other: it at another batch.
        limit: bytes of the memory; TensorFlow's pools have whole MiB of them.
        policy: who chooses.
        places: does it lie where the plan says, in a pool that serves it so?
        estimated: are its bytes those of another batch, in times of it?
    """

    captured: CapturedStep
    other: CapturedStep | None
    limit: int
    policy: Policy = Policy.GREEDY
    places: bool = False
    estimated: bool = False

    @property
    def pool_bytes(self) -> int:
        """What a pool with that limit has."""
        return self.limit - self.limit % self._unit

    @property
    def usable(self) -> int:
        """Of the pool, what the step may take by the model at most: less where ops run side by side."""
        return room(self.pool_bytes, self._alone)

    @property
    def fit(self) -> Fit | None:
        """None if there is none that a pool of so many bytes can serve."""
        return self._served.fit if self._served else None

    @property
    def needed(self) -> int | None:
        """What a pool must have for the fit; None if there is none."""
        return min(self._served.needed, self._served.usable(self.pool_bytes)) if self._served else None

    @cached_property
    def least(self) -> int:
        """The least limit that is known to do, with the room that a pool needs besides."""
        least = min(pooled.least_limit for pooled in self._known)
        return max(1, math.ceil(least / self._unit)) * self._unit

    @cached_property
    def batch(self) -> LargestBatch:
        """What would fit: at least the captured batch where that does, and less where it does not."""
        other = self.other.step if self.other else None
        held = min(pooled.fit.forecast.peak for pooled in self._pool.away)
        needed = max(1, min(pooled.needed for pooled in self._known))
        return largest_batch(self.captured.step, self.usable, other, held / needed)

    @cached_property
    def _pool(self) -> PoolFits:
        ways, beside = (in_places, self._alone) if self.places else (in_bfc, 2)
        return PoolFits(Fits(self.captured.step), ways, self._alone, beside)

    @cached_property
    def _served(self) -> Pooled | None:
        return self._pool.fastest(self.pool_bytes, self.policy)

    @property
    def _known(self) -> list[Pooled]:
        """Those of which it is known what they need."""
        return [*self._pool.away, *([self._served] if self._served else [])]

    @cached_property
    def section(self) -> Memory | None:
        """The fit, for a plan, which promises what it takes of a pool."""
        if self.fit is None or self.needed is None:
            return None
        section = memory_section(self.fit, graph_print(self.captured.view), self.pool_bytes, self.least)
        if self.places:
            return with_places(self.captured.step, section)
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
    def _unit(self) -> int:
        """Pools have bytes in whole times of it."""
        return 1 if self.places else MIB

    @property
    def _alone(self) -> int:
        """As `room` knows how sure the model is: of estimates it is less so, and of a GPU's pool."""
        return 2 if self.estimated or is_gpu(self.captured.step.device) else 1

    @property
    def refusal(self) -> str:
        """Why it does not fit."""
        if self.limit < self.least:
            return (
                f"it does not fit into {in_words(self.limit)}: it needs {limit_in_words(self.least)} at the "
                "least"
            )
        if self.policy is Policy.GREEDY:
            return (
                f"it does not fit into {in_words(self.limit)}, which TensorFlow's pool divides otherwise than "
                f"{limit_in_words(self.least)}: take those"
            )
        return f"the policy {self.policy} makes it fit into {in_words(self.limit)} in no order: take another policy"
