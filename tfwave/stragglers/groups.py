"""Which workers might reduce among themselves: groups of neighbours in speed (sec. 5.2)."""

from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise
from statistics import fmean

from tfwave.stragglers.times import Times

Groups = tuple[tuple[str, ...], ...]
"""The measured workers of each group by name, the fastest group first."""

CUTS = 2
"""Groups are parted at some of so many widest gaps of mean step times, so there are at most three."""


def groupings(times: Times) -> Iterator[Groups]:
    """All that come into question, fewer groups first, then wider gaps; none where all have the same mean time.

    The paper's recursive split by zeta > v parts alike workers by the noise in their times. Here gaps only propose;
    what a grouping is worth is for a simulation to say.
    """
    means = {name: fmean(measured) for name, measured in times.items()}
    in_order = sorted(means, key=lambda name: (means[name], name))
    gaps = [means[slow] - means[fast] for fast, slow in pairwise(in_order)]
    widest = sorted((i for i, gap in enumerate(gaps) if gap > 0), key=lambda i: (-gaps[i], i))[:CUTS]
    for count in range(1, len(widest) + 1):
        for cuts in combinations(widest, count):
            yield _cut(in_order, [i + 1 for i in sorted(cuts)])


def members(groups: Groups, times: Times, workers: int) -> list[list[int]]:
    """Which of any number of workers each group has; the measured ones are taken in turn."""
    names = list(times)
    of_name = {name: group for group, each in enumerate(groups) for name in each}
    found: list[list[int]] = [[] for _ in groups]
    for worker in range(workers):
        found[of_name[names[worker % len(names)]]].append(worker)
    return [each for each in found if each]


def _cut(in_order: Sequence[str], cuts: Sequence[int]) -> Groups:
    return tuple(tuple(sorted(in_order[a:b])) for a, b in pairwise([0, *cuts, len(in_order)]))
