"""Ways in which branches that run at the same time share the devices of their block."""

import functools
import itertools
from collections.abc import Generator

import numpy as np

MOST_BRANCHES = 6
"""Set partitions of more are too many to look at each: 203 of six, 877 of seven."""


@functools.cache
def packings(
    branches: int, counts: tuple[int, ...], devices: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All ways worth looking at: groups of branches, each on devices of its own, together at most `devices`.

    One group of each way stays on the block's first devices, the others are far from them. Branches of a
    group run one after the other. A way in which a group could have more devices is left out: more are never worse.

    Returns:
        The branches of each group as bits, 0 for no group; its width as an index into `counts`; and the index of
        the group that is near; the first two [way, branch], the last [way].
    """
    ways: list[tuple[list[int], list[int], int]] = []
    for groups in _partitions(branches):
        for widths in _widths(len(groups), counts, devices):
            fill = branches - len(groups)
            ways.extend(([*groups, *[0] * fill], [*widths, *[0] * fill], near) for near in range(len(groups)))
    masks, widths, near = zip(*ways, strict=True)
    return np.array(masks), np.array(widths), np.array(near)


def _partitions(branches: int) -> Generator[list[int]]:
    """Each way to put the branches into groups, which are masks of bits."""
    if branches == 0:
        yield []
        return
    bit = 1 << (branches - 1)
    for groups in _partitions(branches - 1):
        for place in range(len(groups)):
            yield [*groups[:place], groups[place] | bit, *groups[place + 1 :]]
        yield [*groups, bit]


@functools.cache
def _widths(groups: int, counts: tuple[int, ...], devices: int) -> tuple[tuple[int, ...], ...]:
    """Indices into `counts` of all widths that fit, of which none can be raised."""
    found: list[tuple[int, ...]] = []
    for some in itertools.product(range(len(counts)), repeat=groups - 1):
        left = devices - sum(counts[w] for w in some)
        if left < 1:
            continue
        last = max(w for w, count in enumerate(counts) if count <= left)
        left -= counts[last]
        if all(w + 1 == len(counts) or counts[w + 1] - counts[w] > left for w in some):
            found.append((*some, last))
    return tuple(found)
