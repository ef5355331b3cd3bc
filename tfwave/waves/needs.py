"""The memory that one step and two waves need: what fits, for offsets as for verdicts."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from tfwave.memory.step import StepMemory
from tfwave.waves.overlap import unpaced_peaks


@dataclass(frozen=True)
class PoolNeeds:
    """What a pool must have room for (`tfwave.memory.slots.room`), by the model, in bytes.

    Attributes:
        memory: one step, alone.
        others: what the pool holds besides (`CapturedMemory.others`).
        gradient_bytes: of all gradients that waves average. Waves keep two copies of each: one lies there from call
            to call, one from the first wave's backward pass until the second's.
        own: what each wave has for itself besides what is resident in the trace: the copies of the variables, where
            the trace tells of none.
    """

    memory: StepMemory
    others: int = 0
    gradient_bytes: int = 0
    own: int = 0

    def fixed(self, waves: int) -> int:
        """What a step alone, or two waves, hold whatever the batch: each wave its own copy of what is resident."""
        copies = 2 * self.gradient_bytes if waves > 1 else 0
        return waves * (self.memory.profile.resident + self.own) + self.others + copies

    @cached_property
    def piece(self) -> int:
        """The room for the largest piece, which grows with the batch."""
        return self.memory.largest_piece

    @property
    def alone(self) -> int:
        """What grows with the batch, of a step alone: what it holds, and room for the largest piece."""
        return self.memory.profile.peak - self.memory.profile.resident + self.piece

    def peaks(self, starts: Sequence[float]) -> tuple[int, ...]:
        """The most that two waves hold, if the second starts each of these times (seconds) after the first.

        Once it has started, either may hold the other up: any pace is reckoned with.
        """
        besides = self.fixed(2) - 2 * self.memory.profile.resident
        return tuple([peak + besides for peak in unpaced_peaks(self.memory, starts)])

    def together(self, peak: int) -> int:
        """What grows with the batch, of two waves with such a peak: what they hold, and room for a piece."""
        return peak - self.fixed(2) + self.piece
