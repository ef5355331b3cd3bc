"""Stock TensorFlow's order: of what is ready when a channel is idle, any transfer leaves, another in each step."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from random import Random

from tfwave.graph.names import Channel, TransferKey
from tfwave.graph.transfer import Transfer
from tfwave.plan.discipline import Discipline

_STEPS = 5


def stock_disciplines(transfers: Sequence[Transfer]) -> dict[Channel, Discipline]:
    """Of each channel: by priority, under the ranks of `stock_ranks`."""
    return dict.fromkeys((t.channel for t in transfers), Discipline.PRIORITY)


def stock_ranks(
    transfers: Sequence[Transfer], seen: Sequence[Mapping[TransferKey, float]] = ()
) -> list[list[int]]:
    """Ranks for the transfers, for each of some steps; the same each time.

    Case 1: steps were seen, in more than one order: theirs. What a trace lost comes last.
    Case 2: none, or something kept what was traced of them in one order: random ranks.

    Args:
        transfers: all that have a rank.
        seen: when the sender had each, of some steps.
    """
    told = [step for step in seen if step]
    if any(_differ(transfers, one, other) for one, other in pairwise(told)):
        return [_ranks(_by_time(transfers, step)) for step in told]  # 1
    steps = [list(range(len(transfers))) for _ in range(_STEPS)]  # 2
    for seed, ranks in enumerate(steps):
        Random(seed).shuffle(ranks)  # noqa: S311
    return steps


def _differ(
    transfers: Sequence[Transfer], one: Mapping[TransferKey, float], other: Mapping[TransferKey, float]
) -> bool:
    """Whether what both steps were seen to send had another order in each."""
    both = [transfer for transfer in transfers if transfer.key in one and transfer.key in other]
    return _by_time(both, one) != _by_time(both, other)


def _by_time(transfers: Sequence[Transfer], step: Mapping[TransferKey, float]) -> list[int]:
    times = [step.get(transfer.key, math.inf) for transfer in transfers]
    return sorted(range(len(times)), key=times.__getitem__)


def _ranks(order: Sequence[int]) -> list[int]:
    ranks = [0] * len(order)
    for rank, place in enumerate(order):
        ranks[place] = rank
    return ranks
