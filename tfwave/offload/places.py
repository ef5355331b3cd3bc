"""Which bytes of a region each op of a step may use, decided before it runs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tfwave.memory.pool.lives import Life, live_peak
from tfwave.memory.pool.placement import place_offline
from tfwave.plan.memory import Place

SMALLEST_SHARE = 1e-4
"""Of the live peak: less than this lies elsewhere, as a few bytes that are held longer than was known would keep
what is large from its place."""


@dataclass(frozen=True)
class Region:
    """Where lives lie.

    Attributes:
        places: of all that are not too small.
        bytes: that these take.
        live_peak: the most bytes of these that are held at once.
        elsewhere: the most bytes of the others that are.
    """

    places: tuple[Place, ...]
    bytes: int
    live_peak: int
    elsewhere: int

    @classmethod
    def of(cls, lives: Sequence[Life], apart: Sequence[Life] = ()) -> "Region":
        """Place them; what an op takes at once and as large may lie in each other's place, and lasts as long.

        What is `apart` lies elsewhere, whatever its size.
        """
        dies: dict[tuple[str, int, int], int] = {}
        for each in lives:
            dies[_twins(each)] = max(each.dies, dies.get(_twins(each), 0))
        lives = [replace(each, dies=dies[_twins(each)]) for each in lives]
        least = SMALLEST_SHARE * live_peak(lives)
        large = [each for each in lives if each.bytes >= least]
        placed = place_offline(large)
        places = [
            Place(op, start, each.bytes, each.is_scratch)
            for each, (start, _) in zip(large, placed.spans, strict=True)
            for op in (each.op, *each.also)
        ]
        small = [*(each for each in lives if each.bytes < least), *apart]
        return cls(tuple(places), placed.size, live_peak(large), live_peak(small))


def _twins(life: Life) -> tuple[str, int, int]:
    return life.op, life.born, life.bytes
