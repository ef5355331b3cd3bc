"""Groups of workers that reduce among themselves, and meet now and then (sec. 5.2)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from tfwave.errors import EnforcerError
from tfwave.reduce.held import Vector

Groups = tuple[tuple[int, ...], ...]
"""The ranks of the workers of each, sorted. The first has worker 0, in whose process groups meet."""


def groups_of(given: Sequence[Sequence[int]], workers: int) -> Groups:
    """Groups as a program gives them.

    Raises:
        EnforcerError: a worker is in none of them, or twice; or there are fewer than two.
    """
    found = tuple(sorted(tuple(sorted(map(int, group))) for group in given))
    if sorted(chain.from_iterable(found)) != list(range(workers)) or not all(found):
        raise EnforcerError(
            f"groups={[list(group) for group in given]} must have each of {workers} workers once: give lists of "
            f"ranks, such as {[[0], list(range(1, workers))]}"
        )
    if len(found) == 1:
        raise EnforcerError("one group of all workers is as none: leave groups out")
    return found


@dataclass
class Progress:
    """Of what a group's weights are the sum: those that all began with, what others did, and what it did itself.

    Attributes:
        begun: those that all groups began with, as one flat array.
        base: with what the others did, as far as this group knows of it.
    """

    begun: Vector
    base: Vector

    def own(self, weights: Vector) -> Vector:
        """What the group did."""
        return weights - self.base

    def step_to(self, others: Vector) -> Vector:
        """By how much weights move, now that the others have done so much since the beginning."""
        before, self.base = self.base, self.begun + others
        return self.base - before

    def ended(self, done: Vector) -> Vector:
        """The weights of all groups, which together did so much."""
        return self.begun + done


def total(parts: Sequence[Vector]) -> Vector:
    """Their sum, one after the other, so that its bits are the same wherever it is made; one at least."""
    found = np.array(parts[0])
    for one in parts[1:]:
        found += one
    return found
