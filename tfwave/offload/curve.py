"""What a step holds during each of its ops, as it was traced and as a plan would have it run."""

from dataclasses import dataclass

import numpy as np

from tfwave.offload.forecast import Forecast
from tfwave.offload.held import Held
from tfwave.offload.layout import Bytes, Layout, Method
from tfwave.offload.orders import traced_order
from tfwave.offload.step import TrainingStep


@dataclass(frozen=True)
class MemoryCurve:
    """Bytes by the place of an op.

    Attributes:
        held: in the pool.
        offloaded: that lie on the host, and would be held else.
        recomputed: that are made again later, and would be held else.
    """

    held: Bytes
    offloaded: Bytes
    recomputed: Bytes


def plain_curve(step: TrainingStep) -> Bytes:
    """Bytes that are held during each op if all is kept, in the traced order."""
    return Layout.of(step, traced_order(step), 0).kept


def fitted_curve(forecast: Forecast) -> MemoryCurve:
    """As the moves of a forecast have it, one op after the other."""
    layout = forecast.choice.layout
    away = {method: np.zeros_like(layout.kept) for method in Method}
    for move in forecast.moves:
        away[move.method][move.gone : move.back] += layout.candidates[move.number].bytes
    return MemoryCurve(Held.of(layout, forecast.moves).during, away[Method.OFFLOAD], away[Method.RECOMPUTE])
