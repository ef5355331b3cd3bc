"""How a training step runs in waves."""

from collections.abc import Sequence
from dataclasses import dataclass

from tfwave.passes.base import GraphPass
from tfwave.passes.text import build_pass


@dataclass(frozen=True)
class WaveOptions:
    """The options of the pass `tick_tock`, whose docstring says what they mean.

    Raises:
        PassError: less than one wave or more than 64, an unknown average, or an offset outside of 0 to 1.
    """

    waves: int = 2
    average: str = "wave"
    offset: float = 0.0

    def __post_init__(self) -> None:
        """Refuse options out of range."""
        self.tick_tock()

    def tick_tock(self, boundary: Sequence[str] = ()) -> GraphPass:
        """The pass, for a step whose forward pass ends at these nodes; none: the pass finds them."""
        options = {"waves": self.waves, "average": self.average, "offset": self.offset}
        return build_pass("tick_tock", {**options, "boundary": list(boundary)})
