"""What each way of placing a step's bytes needs for them."""

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tfwave.memory.pool.growing import Placing, best_fit, bfc, bfc_in_one_region, cnmem, events, gtbm
from tfwave.memory.pool.lives import Life, live_peak
from tfwave.memory.pool.placement import Placed, place_offline

PLACINGS: Mapping[str, Placing] = {
    "bfc": bfc,
    "bfc, one region": bfc_in_one_region,
    "best fit": best_fit,
    "cnmem": cnmem,
    "gtbm": gtbm,
    "offline": place_offline,
}


@dataclass(frozen=True)
class PlacingFigures:
    """What a way of placing needs.

    Attributes:
        placing: its name in `PLACINGS`.
        pool_bytes: that the pool has.
        live_bytes: the most that is held at once: no pool has less.
        unusable: U_f (4.1.3.1) in bytes: of what is free in the pool when a request comes, the share in pieces that
            are too small for it; the mean of all requests that find anything free.
    """

    placing: str
    pool_bytes: int
    live_bytes: int
    unusable: float

    @property
    def over_peak(self) -> float:
        """The pool over the live peak: 1 is perfect."""
        return self.pool_bytes / self.live_bytes if self.live_bytes else 1.0


def compare(lives: Sequence[Life]) -> list[PlacingFigures]:
    """Place the same lives in each way."""
    peak = live_peak(lives)
    found = [(name, place(lives)) for name, place in PLACINGS.items()]
    return [PlacingFigures(name, placed.size, peak, unusable(lives, placed)) for name, placed in found]


def unusable(lives: Sequence[Life], placed: Placed) -> float:
    """As `PlacingFigures.unusable`."""
    held: list[tuple[int, int]] = []
    shares: list[float] = []
    for number, begins in events(lives):
        span = placed.spans[number]
        if not begins:
            del held[bisect_left(held, span)]
            continue
        gaps = list(_gaps(held, placed))
        if free := sum(gaps):
            shares.append(sum(gap for gap in gaps if gap < lives[number].bytes) / free)
        insort(held, span)
    return sum(shares) / len(shares) if shares else 0.0


def _gaps(held: Sequence[tuple[int, int]], placed: Placed) -> list[int]:
    """The sizes of all that is free, cut where pieces of the pool do not coalesce."""
    borders = sorted([*held, *((start, start) for start in placed.pieces), (placed.size, placed.size)])
    gaps: list[int] = []
    at = 0
    for start, end in borders:
        gaps.append(max(0, start - at))
        at = max(at, end)
    return gaps
