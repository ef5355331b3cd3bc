"""The section of a plan on the waves of a training step."""

from dataclasses import dataclass

from tfwave.errors import PlanError
from tfwave.plan.fingerprint import GraphPrint

MOST_WAVES = 64
"""As many as leave the instance keys of the last wave's collectives within 31 bits."""


@dataclass(frozen=True)
class Waves:
    """When the waves of a training step begin (Wavelet section 3), and what that promises.

    Attributes:
        graph: of the step that is rewritten.
        count: how many waves a call makes, 1 to 64.
        offset: the share of a wave's backward pass, 0 to 1, after which the next wave begins.
        limit_bytes: of the memory that all waves share.
        needed_bytes: predicted: what they must have room for, without the margin.
        speedup: predicted, over one larger batch in the same memory; 0: not known. Likewise `speedup_low` and
            `speedup_high`, between which it should lie.
        verdict: whether waves are worth their while, in words; empty: not known.

    Raises:
        PlanError: a number of waves or an offset that cannot be.
    """

    graph: GraphPrint
    count: int
    offset: float
    limit_bytes: int
    needed_bytes: int
    speedup: float = 0.0
    speedup_low: float = 0.0
    speedup_high: float = 0.0
    verdict: str = ""

    def __post_init__(self) -> None:
        """Refuse what no step can be rewritten to."""
        if not 1 <= self.count <= MOST_WAVES:
            raise PlanError(f"the plan makes {self.count} waves of a step, it must be 1 to {MOST_WAVES}")
        if not 0 <= self.offset <= 1:
            raise PlanError(f"the plan begins waves at the offset {self.offset}, it must be from 0 to 1")
