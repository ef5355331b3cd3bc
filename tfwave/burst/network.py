"""What moving samples and summing gradients takes between devices."""

from dataclasses import dataclass

import numpy as np

from tfwave.burst.shards import moved_share
from tfwave.errors import PlanError


@dataclass(frozen=True)
class Network:
    """Any two devices are linked alike, and no two transfers share a link.

    `bandwidth` is in bytes a second and direction; `latency`, in seconds, passes
    once before each transfer and before each sum of gradients.

    Raises:
        PlanError: a bandwidth of 0 or less, or a latency below 0.
    """

    bandwidth: float
    latency: float

    def __post_init__(self) -> None:
        """Refuse what no network has."""
        if not (self.bandwidth > 0 and 0 <= self.latency < float("inf")):
            raise PlanError(
                f"a network of {self.bandwidth:g} bytes/s and {self.latency:g} s latency cannot be: give a "
                "bandwidth above 0 and a latency of at least 0"
            )

    def near(self, size: np.ndarray, counts: tuple[int, ...]) -> np.ndarray:
        """Seconds of `size` bytes and of their gradients, [tensor, count before, count here]; in place: 0."""
        return self._moves(size, np.array([[moved_share(h, k) for k in counts] for h in counts]))

    def far(self, size: np.ndarray, counts: tuple[int, ...]) -> np.ndarray:
        """Likewise between two groups of devices that have none in common."""
        return self._moves(size, np.array([[1 / min(h, k) for k in counts] for h in counts]))

    def sums(self, size: np.ndarray, counts: tuple[int, ...]) -> np.ndarray:
        """Seconds in which a ring of devices sums gradients of `size` bytes, [tensor, count]."""
        shares = np.array([2 * (k - 1) / k for k in counts])
        return self._seconds(size[:, None] * shares)

    def _moves(self, size: np.ndarray, shares: np.ndarray) -> np.ndarray:
        return 2 * self._seconds(size[:, None, None] * shares)

    def _seconds(self, moved: np.ndarray) -> np.ndarray:
        return np.where(moved > 0, self.latency + moved / self.bandwidth, 0.0)
