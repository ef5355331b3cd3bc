"""How a training step runs in waves."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from tfwave.errors import PassError
from tfwave.passes.base import GraphPass
from tfwave.passes.text import build_pass
from tfwave.plan.given import GivenPlan, section_of
from tfwave.plan.waves import Waves

AUTO = "auto"
Offset = float | Literal["auto"]
"""A share of the backward pass; or the least with which two waves fit into the CPU's pool, found when they run."""
Number = int | Literal["auto"]
"""Of waves; or two, if by a measured step they gain anything in the CPU's pool, and else one."""
_WAVES, _OFFSET = 2, 0.0


@dataclass(frozen=True)
class WaveOptions:
    """The options of the pass `tick_tock`, or `tick_tock_partitions`, whose docstrings say what they mean.

    The pass takes numbers only: what is "auto" must be chosen before (`at`, `chosen`).

    Raises:
        PassError: less than one wave or more than 64, an unknown average, an offset outside of 0 to 1, or "auto"
            for other than two waves.
    """

    waves: int = _WAVES
    average: str = "wave"
    offset: Offset = _OFFSET
    planned: Waves | None = None
    """By which waves and offset are what they are, if by a plan."""
    may_be_one: bool = False
    """Are these the most waves, and one runs where more gain nothing?"""
    is_parallel: bool = False
    """Does the model lie on several devices, which the waves pass one after another?"""

    def __post_init__(self) -> None:
        """Refuse options out of range."""
        if not self.is_auto:
            self.graph_pass()
            return
        self.at(0.0)
        if self.waves != 2:
            raise PassError(
                f"tick_tock: offset='auto' is known for 2 waves, not for {self.waves}: take waves=2, or give the "
                "offset as a number"
            )

    @classmethod
    def given(
        cls, waves: Number | None, average: str, offset: Offset | None, plan: GivenPlan | None
    ) -> "WaveOptions":
        """The options of a user, who says waves and offset, or has a plan that does.

        Raises:
            PassError: as above; or waves are no whole number, one is given beside a plan, or an offset in numbers
                beside waves of "auto".
            PlanError: no such plan, or one without waves.
        """
        if plan is None and waves == AUTO:
            if offset not in (None, AUTO):
                raise PassError(
                    f"tick_tock: waves='auto' chooses the offset, too, and it is {offset}: leave it out"
                )
            return cls(_WAVES, average, AUTO, may_be_one=True)
        if plan is None:
            return cls(_count(waves), average, _OFFSET if offset is None else offset)
        for option, value in (("waves", waves), ("offset", offset)):
            if value is not None:
                raise PassError(f"the option {option} is {value}, and the plan says it, too: leave it out")
        planned = section_of(plan, Waves)
        return cls(planned.count, average, planned.offset, planned)

    @property
    def is_auto(self) -> bool:
        """Is the offset still to be chosen?"""
        return self.offset == AUTO

    def at(self, offset: float) -> "WaveOptions":
        """The same with this offset."""
        return replace(self, offset=offset)

    def chosen(self, waves: Waves) -> "WaveOptions":
        """The same with what was chosen."""
        return replace(self, waves=waves.count, offset=waves.offset, may_be_one=False)

    @classmethod
    def parallel(cls, waves: int) -> "WaveOptions":
        """Of a model that lies on several devices.

        Raises:
            PassError: as above.
        """
        return cls(waves, "batch", is_parallel=True)

    def graph_pass(self, boundary: Sequence[str] = ()) -> GraphPass:
        """The pass, for a step whose forward pass ends at these nodes; none: the pass finds them."""
        if self.is_parallel:
            return build_pass("tick_tock_partitions", {"waves": self.waves, "boundary": list(boundary)})
        options = {"waves": self.waves, "average": self.average, "offset": self.offset}
        return build_pass("tick_tock", {**options, "boundary": list(boundary)})


def _count(waves: Any) -> int:
    """As the pass takes it, which refuses what is no whole number."""
    return _WAVES if waves is None else int(waves) if hasattr(waves, "__index__") else waves
