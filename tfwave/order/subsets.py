"""The best order of transfers that wait for nothing, over all sets of transfers."""

import numpy as np

from tfwave.cost.ticks import NEVER
from tfwave.order.problem import Problem


def best_of_subsets(problem: Problem) -> list[int]:
    """A permutation of least makespan; 2^n sets, n choices in each.

    When a set of transfers has arrived, each channel has been busy for the sum of its own, in whatever order.
    So the last to arrive of a set is of a channel whose sum is the largest, and the makespan is the largest,
    over the arrivals, of the time plus the work that cannot start before. The best for a set follows from the
    best for the sets with one less.
    """
    count = len(problem.durations)
    work = _sums_over_subsets(problem)
    channels, arrival = _arrivals(problem)
    best = np.full(1 << count, NEVER, dtype=np.int64)
    best[0] = 0
    last = np.zeros(1 << count, dtype=np.int8)
    for sets in _by_size(count):
        for i in range(count):
            ends = sets[
                (sets >> i & 1).astype(np.bool_) & (channels[problem.channels[i]][sets] == arrival[sets])
            ]
            earlier = ends ^ (1 << i)
            value = np.maximum(best[earlier], arrival[ends] - work[earlier])
            better = value < best[ends]
            best[ends[better]] = value[better]
            last[ends[better]] = i
    return _trace(last, count)


def _sums_over_subsets(problem: Problem) -> np.ndarray:
    """Per set of transfers: the ticks of all ops that wait for nothing else."""
    count = len(problem.durations)
    work = np.zeros(1 << count, dtype=np.int64)
    for needs, ticks in problem.work.items():
        work[needs] += ticks
    for i in range(count):
        halves = work.reshape(-1, 2, 1 << i)
        halves[:, 1] += halves[:, 0]
    return work


def _arrivals(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Per set of transfers: the ticks of its part in each channel, and the largest of them."""
    count = len(problem.durations)
    channels = np.zeros((max(problem.channels, default=0) + 1, 1 << count), dtype=np.int64)
    for i, channel in enumerate(problem.channels):
        channels[channel].reshape(-1, 2, 1 << i)[:, 1] += problem.durations[i]
    return channels, channels.max(axis=0)


def _by_size(count: int) -> list[np.ndarray]:
    """The sets of one transfer, of two, and so on."""
    sizes = np.zeros(1 << count, dtype=np.int8)
    for i in range(count):
        sizes.reshape(-1, 2, 1 << i)[:, 1] += 1
    ascending = np.argsort(sizes, kind="stable")
    return np.split(ascending, np.searchsorted(sizes[ascending], np.arange(1, count + 1)))[1:]


def _trace(last: np.ndarray, count: int) -> list[int]:
    sequence: list[int] = []
    left = (1 << count) - 1
    while left:
        sequence.append(int(last[left]))
        left ^= 1 << sequence[-1]
    return sequence[::-1]
