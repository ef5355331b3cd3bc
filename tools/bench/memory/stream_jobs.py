"""The trainings of a search over models and rates, as they are asked for; and the ways to run them."""

import random
from dataclasses import dataclass
from itertools import product

SEARCHED = ("resnet", "unet", "lstm")
"""Of `limited_models`: two that keep the cores busy, and one of small ops that wait for each other."""
RATES = (0.003, 0.01, 0.03, 0.1)
SHARES = (1.0, 0.5, 0.25)
"""Of the steps: a search stops early what does not promise anything."""
SEED = 1
IN_TURN = "in turn"
WAYS = (IN_TURN, "offload", "colocate", "both")


@dataclass(frozen=True)
class Training:
    """One of a search."""

    name: str
    model: str
    rate: float
    steps: int


def trainings(steps: int) -> list[Training]:
    """All twelve, the longest of which make `steps`."""
    shares = [SHARES[place % len(SHARES)] for place in range(len(SEARCHED) * len(RATES))]
    chance = random.Random(SEED)
    chance.shuffle(shares)
    found = [
        Training(f"{model}, rate {rate}", model, rate, max(1, round(share * steps)))
        for (model, rate), share in zip(product(SEARCHED, RATES), shares, strict=True)
    ]
    chance.shuffle(found)
    return found
