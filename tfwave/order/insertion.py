"""Where in its channel's sequence a transfer is best, all positions at a glance.

For transfers that wait for nothing. One compute resource that never idles takes the same time in whatever
sequence it does the work that is there. So the makespan is the largest, over the arrivals t, of t plus the
work that cannot start before t: the work of all classes that a transfer is missing for until t.
"""

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np

from tfwave.order.deps import membership
from tfwave.order.problem import Problem


class Sequences:
    """The sequence of each channel, from which single transfers are taken out and put back.

    Of each class of ops (those that wait for the same set) and each channel: the position of the last of the
    set's transfers in the channel's sequence, -1 where it has none there. What is taken out counts as there.
    Sums of ticks are below 2 ** 53, so that floats hold them exactly.
    """

    def __init__(self, problem: Problem, order: Iterable[int]) -> None:
        sets = sorted(problem.work)
        self._channels = problem.channels
        self._durations = problem.durations
        self._work = np.array([problem.work[s] for s in sets], dtype=np.float64)
        self._total = float(self._work.sum())
        self._member = membership(sets, len(problem.channels))
        self._columns = np.ascontiguousarray(self._member.T)
        count = max(problem.channels) + 1
        self._sequences: list[list[int]] = [[] for _ in range(count)]
        self._last = [np.full(len(sets), -1, dtype=np.int64) for _ in range(count)]
        self._arrivals = [np.zeros(1) for _ in range(count)]
        """Per channel: 0, then when each of its sequence has arrived."""
        for transfer in order:
            self.insert(transfer, len(self._sequences[self._channels[transfer]]))

    def fork(self) -> "Sequences":
        """The same sequences, to be changed apart from these."""
        other = copy(self)
        other._sequences = [sequence[:] for sequence in self._sequences]
        other._last = [last.copy() for last in self._last]
        other._arrivals = self._arrivals[:]
        return other

    @property
    def order(self) -> list[int]:
        """All transfers by arrival; of equal ones the first channel's first."""
        arrivals = [
            (float(self._arrivals[channel][position + 1]), channel, position, transfer)
            for channel, sequence in enumerate(self._sequences)
            for position, transfer in enumerate(sequence)
        ]
        return [transfer for *_, transfer in sorted(arrivals)]

    @property
    def count(self) -> int:
        """How many transfers there are, those taken out included."""
        return len(self._channels)

    def insert(self, transfer: int, position: int) -> None:
        """Put a transfer that was taken out into its channel's sequence."""
        channel = self._channels[transfer]
        last = self._last[channel]
        last += last >= position
        held = self._columns[transfer]
        last[held] = np.maximum(last[held], position)
        self._sequences[channel].insert(position, transfer)
        arrivals = self._arrivals[channel]
        behind = arrivals[position:] + self._durations[transfer]
        self._arrivals[channel] = np.concatenate([arrivals[: position + 1], behind])

    def remove(self, transfer: int) -> None:
        """Take a transfer out of its channel's sequence."""
        channel = self._channels[transfer]
        sequence = self._sequences[channel]
        position = sequence.index(transfer)
        last = self._last[channel]
        classes = np.flatnonzero(last == position)
        last[classes] = self._last_before(classes, sequence[:position])
        last -= last > position
        del sequence[position]
        arrivals = self._arrivals[channel]
        behind = arrivals[position + 2 :] - self._durations[transfer]
        self._arrivals[channel] = np.concatenate([arrivals[: position + 1], behind])

    def makespan(self) -> int:
        """In ticks."""
        releases = self._releases(range(len(self._sequences)))
        ascending = releases.argsort()
        work_after = self._work[ascending][::-1].cumsum()[::-1]
        ends = [arrivals[-1] for arrivals in self._arrivals]
        return int(max((releases[ascending] + work_after).max(), *ends))

    def makespans(self, transfer: int) -> np.ndarray:
        """For each position at which a transfer that was taken out can be put: the makespan then.

        The transfer moves those behind it by its own time. Of the arrivals t there are:

        Case 1: the transfer itself.
        Case 2: those before it in its channel, as they are.
        Case 3: those behind it, moved.
        Case 4: those of other channels; see `_by_other_channels`.
        """
        channel = self._channels[transfer]
        starts = self._arrivals[channel]
        moved = starts + self._durations[transfer]
        done = self._done(transfer)
        position = np.arange(len(starts))
        work_done = moved - done.without(moved, position)
        before = starts[1:] - done.without(starts[1:], position[:-1])
        after = moved[1:] - done.with_it(moved[1:], position[:-1])
        work_done[1:] = np.maximum(work_done[1:], np.maximum.accumulate(before))
        work_done[:-1] = np.maximum(work_done[:-1], np.maximum.accumulate(after[::-1])[::-1])
        if len(done.times) > 1:
            np.maximum(work_done, _by_other_channels(done, starts, moved), out=work_done)
        return self._total + np.maximum(work_done, 0)

    @property
    def effort(self) -> int:
        """What one call of `makespans` looks at, about: transfers, classes, and pairs of arrivals."""
        pairs = len(self._channels) * max(map(len, self._sequences)) if len(self._sequences) > 1 else 0
        return 10 * len(self._channels) + 2 * len(self._work) + 3 * pairs

    def _last_before(self, classes: np.ndarray, sequence: Sequence[int]) -> np.ndarray:
        """Of each class: the position of its last transfer in a sequence, -1 where it has none there."""
        if not sequence:
            return np.full(len(classes), -1)
        held = self._member[classes[:, None], sequence[::-1]]
        return np.where(held.any(axis=1), len(sequence) - 1 - held.argmax(axis=1), -1)

    def _releases(self, channels: Iterable[int]) -> np.ndarray:
        """Of each class: when the last of its transfers of these channels arrives."""
        releases = np.zeros(len(self._work))
        for channel in channels:
            np.maximum(releases, self._arrivals[channel][self._last[channel] + 1], out=releases)
        return releases

    def _done(self, transfer: int) -> "_Done":
        channel = self._channels[transfer]
        others = [c for c in range(len(self._sequences)) if c != channel]
        times = np.sort(np.concatenate([np.zeros(1), *[self._arrivals[c][1:] for c in others]]))
        shape = (2, len(times), len(self._arrivals[channel]))
        cell = self._columns[transfer] * shape[1] + np.searchsorted(times, self._releases(others))
        cell = cell * shape[2] + self._last[channel] + 1
        work = np.bincount(cell, self._work, shape[0] * shape[1] * shape[2]).reshape(shape)
        table = np.zeros((2, shape[1] + 1, shape[2]))
        np.cumsum(work, axis=1, out=table[:, 1:])
        np.cumsum(table, axis=2, out=table)
        table[1] += table[0]
        return _Done(times, table)


@dataclass(frozen=True)
class _Done:
    """Work that can be done before some time, when so many of a channel's sequence have arrived before it.

    `times` are 0 and the arrivals of the other channels.
    """

    times: np.ndarray
    table: np.ndarray

    def without(self, times: np.ndarray, arrived: np.ndarray) -> np.ndarray:
        """While the transfer that was taken out is missing."""
        return self.table[0, np.searchsorted(self.times, times), arrived]

    def with_it(self, times: np.ndarray, arrived: np.ndarray) -> np.ndarray:
        """When it is there too."""
        return self.table[1, np.searchsorted(self.times, times), arrived]


def _by_other_channels(done: _Done, starts: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """For each position: the largest, over the arrivals t of other channels, of t less the work done by then.

    Case 1: the transfer has arrived before t; so have all before it, and those behind whose moved arrival is.
    Case 2: it has not; then those before it that arrived are there.

    In either case the work done by t grows with the position up to a limit, so an arrival that is harmless
    at the first position of each case is left out.
    """
    times = done.times[1:]
    there = np.searchsorted(moved, times)
    moved_there = np.maximum(there - 1, 0)
    unmoved_there = np.searchsorted(starts[1:], times)
    case_1 = np.where(there > 0, times - done.with_it(times, moved_there), 0)
    case_2 = times - done.without(times, np.minimum(there, unmoved_there))
    harmful = np.flatnonzero((case_1 > 0) | (case_2 > 0))
    if not len(harmful):
        return np.zeros(len(starts))
    position = np.arange(len(starts))
    rows = np.searchsorted(done.times, times[harmful])[:, None]
    arrived = np.minimum(position, unmoved_there[harmful, None])
    late = times[harmful, None] - done.table[0, rows, arrived]
    return np.where(position < there[harmful, None], case_1[harmful, None], late).max(axis=0)
