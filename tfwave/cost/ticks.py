"""Exact time: costs as integers, so that no sum and no tie depends on the order of summation."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from tfwave.cost.model import vetted
from tfwave.cost.table import Costs
from tfwave.errors import CostError
from tfwave.graph.transfer import Transfer
from tfwave.graph.view import GraphView

_DIGITS = 15
"""The sum of all costs has so many: what a float holds of a decimal, and far inside 64 bits."""

_LARGEST_POWER = 290

NEVER = 1 << 62
"""+inf in ticks: above every sum of costs."""


@dataclass(frozen=True)
class Ticks:
    """Costs in ticks of ``10 ** -exponent`` seconds.

    The tick is a power of ten, so decimal costs tie as they do on paper (0.1 + 0.2 = 0.3); it follows the sum
    of all costs, so scaling every cost scales the tick.
    """

    ops: list[int]
    transfers: list[int]
    exponent: int

    def seconds(self, ticks: int) -> float:
        """The same time in seconds."""
        return float(Decimal(ticks).scaleb(-self.exponent))

    def of(self, seconds: float) -> int:
        """A time in ticks, rounded to the nearest."""
        return round(Decimal(seconds).scaleb(self.exponent))


def in_ticks(op_seconds: Sequence[float], transfer_seconds: Sequence[float]) -> Ticks:
    """Scale costs so that their sum has 15 digits; each is rounded once, to the nearest tick.

    Raises:
        CostError: the sum is too large or too small to be seconds.
    """
    costs = np.array([*op_seconds, *transfer_seconds], dtype=np.float64)
    total = _total(costs)
    exponent = _DIGITS - 1 - Decimal(str(total)).adjusted() if total else 0
    if abs(exponent) > _LARGEST_POWER:
        raise CostError(f"the costs sum to {total} s: give them in seconds")
    ticks: list[int] = np.rint(costs * 10.0**exponent).astype(np.int64).tolist()
    return Ticks(ticks[: len(op_seconds)], ticks[len(op_seconds) :], exponent)


def ticks_of(view: GraphView, ops: Sequence[int], transfers: Sequence[Transfer], costs: Costs) -> Ticks:
    """The costs of these ops and transfers, in their sequence.

    Raises:
        MissingCost: the table does not know one; names it.
        CostError: a cost is negative, infinite or not a number; names it.
    """
    return in_ticks(
        [vetted(costs.op_seconds(op), view.names[op]) for op in ops],
        [vetted(costs.transfer_seconds(t), t.node) for t in transfers],
    )


def _total(costs: np.ndarray) -> float:
    try:
        return math.fsum(costs.tolist())
    except OverflowError as error:
        raise CostError("the costs sum to more than a float holds: give them in seconds") from error
