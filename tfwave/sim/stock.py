"""Stock TensorFlow's order: of what is ready when a channel is idle, any transfer leaves, another in each step."""

from collections.abc import Sequence
from random import Random

from tfwave.graph.names import Channel
from tfwave.graph.transfer import Transfer
from tfwave.plan.discipline import Discipline

_STEPS = 5


def stock_disciplines(transfers: Sequence[Transfer]) -> dict[Channel, Discipline]:
    """Of each channel: by priority, under the ranks of `stock_ranks`."""
    return dict.fromkeys((t.channel for t in transfers), Discipline.PRIORITY)


def stock_ranks(transfers: Sequence[Transfer]) -> list[list[int]]:
    """Random ranks for the transfers, for each of some steps; the same each time."""
    steps = [list(range(len(transfers))) for _ in range(_STEPS)]
    for seed, ranks in enumerate(steps):
        Random(seed).shuffle(ranks)  # noqa: S311
    return steps
