"""Was the order kept? Planned ranks against the hand-offs that the hook logged."""

import math
import statistics
from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class HandOff(NamedTuple):
    """One tensor given to gRPC: its step and channel, its rank in the plan, and why it went then."""

    step: int
    channel: str
    rank: int
    reason: str


@dataclass(frozen=True)
class Conformance:
    """Figures over the steps of a run, one step being one step id on one channel.

    `inversion_share` is the median over steps of the pairs that went in the wrong order (Kendall), as a share
    of all pairs: 0 is the plan's order, about 0.5 a random one, 1 its reverse. `nan` where no step has a pair.
    """

    steps: int
    exact_steps: int
    inversions: int
    inversion_share: float
    hand_offs: int
    late: int
    released: int

    @property
    def exact(self) -> bool:
        """Whether each step kept the plan's order."""
        return self.steps > 0 and self.exact_steps == self.steps


def conformance(hand_offs: Iterable[HandOff]) -> Conformance:
    """Judge hand-offs by the counter's rule: in each step of each channel, ranks must rise."""
    sequences: dict[tuple[int, str], list[int]] = defaultdict(list)
    reasons: Counter[str] = Counter()
    for hand_off in hand_offs:
        sequences[hand_off.step, hand_off.channel].append(hand_off.rank)
        reasons[hand_off.reason] += 1
    counts = [inversions(ranks) for ranks in sequences.values()]
    shares = [
        count / math.comb(len(ranks), 2)
        for count, ranks in zip(counts, sequences.values(), strict=True)
        if len(ranks) > 1
    ]
    return Conformance(
        steps=len(counts),
        exact_steps=counts.count(0),
        inversions=sum(counts),
        inversion_share=statistics.median(shares) if shares else math.nan,
        hand_offs=sum(map(len, sequences.values())),
        late=reasons["LATE"],
        released=reasons["RELEASED"],
    )


def inversions(ranks: Sequence[int]) -> int:
    """Pairs in which the later rank came first (Kendall's distance to sorted order)."""
    seen: list[int] = []
    count = 0
    for rank in reversed(ranks):
        count += bisect_left(seen, rank)
        insort(seen, rank)
    return count
