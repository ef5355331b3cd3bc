"""Which fault strikes before which step: drawn from a seed, so that a failure can be had again."""

import random
from collections.abc import Mapping, Sequence

UNDISTURBED = 3
"""So many steps come before the first fault."""


def schedule(seed: int, steps: int, faults: Sequence[str], times: int) -> Mapping[int, str]:
    """Each fault so many times, before steps that differ; in order of the steps."""
    chance = random.Random(seed)
    places = sorted(chance.sample(range(UNDISTURBED, steps), len(faults) * times))
    drawn = list(faults) * times
    chance.shuffle(drawn)
    return dict(zip(places, drawn, strict=True))
