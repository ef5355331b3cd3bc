"""Whether TensorFlow's allocator serves a step from a pool that has all of its bytes from the beginning."""

from bisect import bisect_left, insort
from collections.abc import Sequence

from tfwave.memory.pool.growing import events
from tfwave.memory.pool.lives import Life
from tfwave.memory.pool.pools import ALIGNMENT, MOST_PADDING


def bfc_serves(lives: Sequence[Life], size: int) -> bool:
    """Whether that allocator serves all of them from one region of so many bytes, which does not grow.

    One that grows by what is missing takes too little: a large piece that gets all that is free at the end of a
    region leaves others nothing. It does as `BlindPool` does, in one piece: plans ask it thousands of times.
    """
    end = size - size % ALIGNMENT
    free, ends_at, begins_at = [(end, 0)][: end > 0], {0: end}, {end: 0}
    """By bytes, then by address; and of each piece where it ends, and where it begins."""
    held: dict[int, tuple[int, int]] = {}
    for number, begins in events(lives):
        if begins:
            wanted = lives[number].bytes
            at = bisect_left(free, (wanted, 0))
            if at == len(free):
                return False
            found, start = free.pop(at)
            stop = ends_at.pop(start)
            del begins_at[stop]
            is_split = found >= 2 * wanted or found - wanted >= MOST_PADDING
            held[number] = start, start + wanted if is_split else stop
            if not is_split:
                continue
            start += wanted
        else:
            start, stop = held.pop(number)
            if stop in ends_at:
                behind = ends_at.pop(stop)
                del free[bisect_left(free, (behind - stop, stop))]
                stop = behind
            if start in begins_at:
                before = begins_at.pop(start)
                del ends_at[before], free[bisect_left(free, (start - before, before))]
                start = before
        ends_at[start], begins_at[stop] = stop, start
        insort(free, (stop - start, start))
    return True
