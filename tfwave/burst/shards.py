"""Which device holds which shard of an activation, and what moves where the number of shards changes."""

import bisect
import functools
import itertools

import numpy as np


def device_of(shard: int, count: int) -> int:
    """The number of the device, among `count`, that holds a shard; shard p holds samples p/count to (p+1)/count.

    With a power of two it is p with its bits reversed: so each device keeps a part of what it holds when the count
    doubles or is halved. With another count it is p.
    """
    if count & (count - 1):
        return shard
    bits = count.bit_length() - 1
    return int(f"{shard:0{bits}b}"[::-1], 2) if bits else 0


@functools.cache
def moved_share(before: int, after: int) -> float:
    """The share of all samples that the busiest device sends or receives, from one count to another."""
    if before == after:
        return 0.0
    held, wanted = _begins(before), _begins(after)
    both = np.full(max(before, after), 0.0)
    few = min(before, after)
    begin = np.maximum(held[:few], wanted[:few])
    end = np.minimum(held[:few] + 1 / before, wanted[:few] + 1 / after)
    both[:few] = np.maximum(end - begin, 0.0)
    return float(max((1 / before - both[:before]).max(), (1 / after - both[:after]).max()))


def _begins(count: int) -> np.ndarray:
    """Where the shard of each device begins, by device."""
    begins = np.empty(count)
    for shard in range(count):
        begins[device_of(shard, count)] = shard / count
    return begins


def bounds(batch: int, count: int) -> tuple[int, ...]:
    """Where the shards of a batch begin, and where the last one ends; their samples differ by one at most."""
    return tuple(batch * shard // count for shard in range(count + 1))


def overlaps(batch: int, before: int, after: int) -> tuple[tuple[int, int, int], ...]:
    """What shards have in common where their number changes: (shard before, shard after, samples), in order."""
    held, wanted = bounds(batch, before), bounds(batch, after)
    edges = sorted({*held, *wanted})
    return tuple(
        (bisect.bisect_right(held, begin) - 1, bisect.bisect_right(wanted, begin) - 1, end - begin)
        for begin, end in itertools.pairwise(edges)
    )
