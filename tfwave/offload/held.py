"""What a step holds whose tensors go and come."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tfwave.offload.layout import Bytes, Layout, Method
from tfwave.offload.moves import Move


@dataclass(frozen=True)
class Held:
    """Bytes by the place of an op, where one op runs after the other.

    Attributes:
        during: held.
        taken: of those, what is taken for this op: its scratch, buffers, what comes back before it, and what chains
            hold meanwhile.
        leaving: not held, but free only when a copy is done for which this op waits.
    """

    during: Bytes
    taken: Bytes
    leaving: Bytes

    @classmethod
    def of(cls, layout: Layout, moves: Sequence[Move]) -> "Held":
        """As tensors go and come; what is not among the moves is kept."""
        during, taken = layout.kept.copy(), layout.taken.copy()
        leaving = np.zeros_like(during)
        for move in moves:
            candidate = layout.candidates[move.number]
            during[move.gone : move.back] -= candidate.bytes
            taken[move.back] += candidate.bytes
            if move.method is Method.OFFLOAD:
                leaving[move.gone] += candidate.bytes
            elif candidate.chain:
                during[move.back] += candidate.chain.temporary
                taken[move.back] += candidate.chain.temporary
        return cls(during, taken, leaving)
