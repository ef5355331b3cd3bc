"""What steps take where all tasks are on one machine, and share its cores.

The seconds below were fitted to 36 jobs of three models, on two cores of an AMD EPYC: one or two servers and
workers, and links of 0.3 to 10 Gbit/s. Gains that they forecast there are off by 2 points, at most by 10.
"""

from dataclasses import dataclass

from tfwave.cost.network import EXPOSED
from tfwave.errors import CostError, PlanError
from tfwave.staging.capture import Capture

CARRY_CORE_SECONDS = 2e-9
"""Of a byte, to send and to receive it."""
STEP_CORE_SECONDS = 0.004
"""Of a step whose rows travel once, to have workers and servers do what one process does by itself."""
CALL_CORE_SECONDS = 0.01
"""Of a call of such steps, to begin and to end it."""


@dataclass(frozen=True)
class Cores:
    """So many cores, and for how many seconds a step keeps one of them busy that needs no network.

    Raises:
        PlanError: not one core.
    """

    count: int
    step_seconds: float

    def __post_init__(self) -> None:
        """Refuse a machine without any."""
        if self.count < 1:
            raise PlanError(f"a machine of {self.count} cores cannot be: give at least 1")

    @classmethod
    def of(cls, capture: Capture, count: int) -> "Cores":
        """By what a capture saw.

        Raises:
            CostError: it did not look at the cores.
        """
        if capture.core_seconds is None:
            raise CostError("the capture does not say what steps take of the cores: capture it again")
        return cls(count, capture.core_seconds)

    def seconds(self, apart: float, moved: float, added: float) -> float:
        """Of a step that moves so many bytes, and takes `apart` where each task has cores of its own.

        It keeps a core busy for the seconds `added` beyond those that were captured.
        """
        busy = (self.step_seconds + added + CARRY_CORE_SECONDS * moved) / self.count
        return max(apart, busy) + EXPOSED * min(apart, busy)


def added_core_seconds(steps: int) -> float:
    """Of a step in a call of so many. Stock steps add none: what is prepared for captured ones they do without."""
    return STEP_CORE_SECONDS + CALL_CORE_SECONDS / steps
