"""The gradients that a member holds, and what it gives to a reduce (sec. 5.1.3)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

Vector = np.ndarray[Any, np.dtype[Any]]
Local = Literal["linear", "sum"]
"""How several gradients of one member become one: their mean, weighted 1 (oldest), 2, ...; or their sum."""


@dataclass
class Held:
    """What waits, and what a reduce that is not decided yet has of it.

    Attributes:
        local: how several become one.
        staleness: a gradient is dropped, and counted, if more reduces than these came after the weights that it
            was taken at.
        waiting: gradients with the number of the last reduce in their weights, oldest first.
        dropped: how many were too old.
    """

    local: Local
    staleness: int
    waiting: list[tuple[Vector, int]] = field(default_factory=list[tuple[Vector, int]])
    lent: list[tuple[Vector, int]] = field(default_factory=list[tuple[Vector, int]])
    dropped: int = 0

    def take(self, version: int) -> Vector | None:
        """What goes into the reduce of this number, not to be changed; None if there is nothing."""
        fresh = [one for one in self.waiting if version - 1 - one[1] <= self.staleness]
        self.dropped += len(self.waiting) - len(fresh)
        self.waiting, self.lent = [], fresh
        return combine(self.local, [gradient for gradient, _ in fresh]) if fresh else None

    def give_back(self) -> None:
        """The reduce came to nothing."""
        self.waiting, self.lent = self.lent + self.waiting, []

    def retract(self, gradient: Vector) -> None:
        """One is not to be had after all."""
        self.waiting, self.lent = (
            [one for one in some if one[0] is not gradient] for some in (self.waiting, self.lent)
        )

    def settle(self) -> None:
        """The reduce stands."""
        self.lent = []


def combine(local: Local, gradients: Sequence[Vector]) -> Vector:
    """One array of several, oldest first; the arrays are left as they are. Of one it is that one."""
    if len(gradients) == 1:
        return gradients[0]
    if local == "sum":
        total = gradients[0].copy()
        for one in gradients[1:]:
            total += one
        return total
    share = 2 / (len(gradients) * (len(gradients) + 1))
    total = gradients[0] * gradients[0].dtype.type(share)
    for weight, one in enumerate(gradients[1:], 2):
        total += one * one.dtype.type(weight * share)
    return total
