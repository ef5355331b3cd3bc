"""What no choice can cost less than."""

import math

import numpy as np

from tfwave.offload.choice import Prices
from tfwave.offload.layout import Method


def relief_bound(prices: Prices, limit: int) -> float:
    """Seconds: of the worst place, for which its excess comes off at the least price per byte.

    What else is held there, and what chains need, is left out: so it may be far below the optimum.
    """
    layout = prices.layout.condensed()
    cheapest = prices.of[:, Method.OFFLOAD :].min(axis=1, initial=np.inf)
    ranked = np.argsort(cheapest / layout.bytes, kind="stable")
    bound = 0.0
    for place in np.flatnonzero(layout.kept > limit):
        there = ranked[(layout.left[ranked] < place) & (place < layout.wanted[ranked])]
        needed = float(layout.kept[place] - limit)
        behind = np.concatenate([[0.0], np.cumsum(layout.bytes[there])])
        taken = np.clip(needed - behind[:-1], 0, layout.bytes[there])
        bound = max(bound, math.fsum(taken * cheapest[there] / layout.bytes[there]))
    return bound
