"""What a row is worth, by which ids came: pure functions, of many rows at once."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tfwave.errors import TfwaveError


class Policy(Protocol):
    """Tells which rows to keep: those that are worth most."""

    def renewed(self, worth: Any, age: Any, negatives: Any, positives: Any) -> Any:
        """What rows are worth behind a batch that has them.

        Args:
            worth: of each row, as this returned it last; 0 at first.
            age: how many batches ago that was, at least 1.
            negatives: how many of the batch's ids are the row's, without
            positives: those of positive samples (clicks).
        """
        ...

    def present(self, worth: Any, age: Any) -> Any:
        """What tells rows apart now: greater is kept rather."""
        ...


@dataclass(frozen=True)
class LRU:
    """Keeps the rows that came last."""

    def renewed(self, worth: Any, age: Any, negatives: Any, positives: Any) -> Any:
        del age, negatives, positives
        return worth

    def present(self, worth: Any, age: Any) -> Any:
        del worth
        return -age


@dataclass(frozen=True)
class LFU:
    """Keeps the rows that came most often."""

    def renewed(self, worth: Any, age: Any, negatives: Any, positives: Any) -> Any:
        del age
        return worth + negatives + positives

    def present(self, worth: Any, age: Any) -> Any:
        del age
        return worth


@dataclass(frozen=True)
class Score:
    """Eq. 6.3 of Sven: w <- (1 - decay) w + decay (p * positive + n * negative).

    p and n are how many of a batch's positive and negative samples have the row. The paper does not say whether a
    batch changes the worth of rows that it does not have. Here it does: p and n are 0 for them, and their worth
    decays. If only rows that come decayed, this would keep what LFU keeps, also when other ids have become frequent
    long ago. The decay is made up for when a row comes again, so that a batch costs nothing for rows that it does
    not have.

    Raises:
        TfwaveError: a decay that is not between 0 and 1, or weights below 0.
    """

    decay: float = 0.02
    positive: float = 1.0
    negative: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.decay < 1:
            raise TfwaveError(f"decay must be between 0 and 1, not {self.decay}")
        if not (self.positive >= 0 and self.negative >= 0):
            raise TfwaveError(f"the weights must be >= 0, not {self.positive} and {self.negative}")

    def renewed(self, worth: Any, age: Any, negatives: Any, positives: Any) -> Any:
        came = positives * self.positive + negatives * self.negative
        return worth * (1 - self.decay) ** age + self.decay * came

    def present(self, worth: Any, age: Any) -> Any:
        """The logarithm, which no age makes 0."""
        with np.errstate(divide="ignore"):
            return np.log(worth) + age * np.log1p(-self.decay)
