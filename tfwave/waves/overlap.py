"""The memory of two waves: one wave's curve over the other's, some time apart."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise

import numpy as np
from numpy.typing import NDArray

from tfwave.errors import PlanError
from tfwave.memory.step import StepMemory


def two_wave_peaks(memory: StepMemory, offsets: Sequence[float]) -> tuple[int, ...]:
    """The most bytes that two waves hold together, if the second starts each of these offsets (seconds) later.

    Each wave holds its own copy of all that is resident, all the time. Neither slows the other: where they do, both
    curves stretch, and this is an estimate. The step must have an op.

    Raises:
        PlanError: an offset is below 0 or not finite.
    """
    for offset in offsets:
        if not 0 <= offset < np.inf:
            raise PlanError(f"the second wave starts {offset} s after the first: give 0 or more")
    curve = _Levels.of(memory)
    return tuple([2 * memory.profile.resident + curve.peak_with_itself(offset) for offset in offsets])


def unpaced_peaks(memory: StepMemory, offsets: Sequence[float]) -> tuple[int, ...]:
    """The most bytes that two waves can hold, however the second, once started, gets on beside the first.

    It starts when the first has come as far as a wave alone does in each of these offsets (seconds). One may then
    stand still at its worst while the other comes to its own. Each holds its own copy of all that is resident.
    """
    curve = _Levels.of(memory)
    return tuple([memory.profile.peak + memory.profile.resident + curve.most_from(o) for o in offsets])


def share_above_half(memory: StepMemory) -> float:
    """The share of the step's time in which it holds more than half of its peak."""
    points = [*memory.curve, (memory.seconds, 0)]
    above = sum(until - at for (at, held), (until, _) in pairwise(points) if 2 * held > memory.profile.peak)
    return above / memory.seconds if memory.seconds else 0.0


@dataclass(frozen=True)
class _Levels:
    """Bytes above what is resident, by time: the highest at each instant, and what is held from it on."""

    times: NDArray[np.float64]
    highest: NDArray[np.int64]
    after: NDArray[np.int64]

    @staticmethod
    def of(memory: StepMemory) -> "_Levels":
        points = [(at, held - memory.profile.resident) for at, held in memory.curve]
        instants = [(at, [held for _, held in found]) for at, found in groupby(points, key=lambda p: p[0])]
        return _Levels(
            np.array([at for at, _ in instants], np.float64),
            np.array([max(held) for _, held in instants], np.int64),
            np.array([held[-1] for _, held in instants], np.int64),
        )

    def peak_with_itself(self, offset: float) -> int:
        """Both curves change only where one of them does: at the first's own times, and at the second's."""
        first = self.highest + self._at(self.times - offset)
        second = self.highest + self._at(self.times + offset)
        return int(np.max(np.concatenate([first, second])))

    def most_from(self, second: float) -> int:
        """The most from a time on."""
        later = self._most_later[np.searchsorted(self.times, second)]
        return int(max(*self._at(np.array([second])), later))

    @cached_property
    def _most_later(self) -> NDArray[np.int64]:
        """The most from each instant on, and after the last."""
        return np.maximum.accumulate([self.after[-1], *self.highest[::-1]])[::-1]

    def _at(self, seconds: NDArray[np.float64]) -> NDArray[np.int64]:
        places = np.searchsorted(self.times, seconds, side="right") - 1
        held = np.where(self.times[places] == seconds, self.highest[places], self.after[places])
        return np.where(places < 0, 0, held)
