"""Which ops of a fitted step move its peak, so that they must keep their turn."""

from tfwave.offload.forecast import Forecast
from tfwave.offload.layout import Layout

FREE_SHARE = 0.02
"""Of the peak: what all ops together that keep no turn may take or give back."""


def chained_ops(forecast: Forecast) -> tuple[int, ...]:
    """All ops in their order, but for those that move the fewest bytes, 2 % of the peak in all.

    Whenever the others run, the peak is no more than these 2 % above that of the order. An op moves what it
    allocates, its scratch, and what is free, or goes away, behind it.
    """
    layout = forecast.choice.layout
    moved = _moved(layout)
    for move in forecast.moves:
        moved[move.left] += layout.candidates[move.number].bytes
    left, free = FREE_SHARE * forecast.peak, set[int]()
    for place in sorted(range(len(moved)), key=moved.__getitem__):
        left -= moved[place]
        if left < 0:
            break
        free.add(place)
    return tuple(op for place, op in enumerate(layout.order) if place not in free)


def _moved(layout: Layout) -> list[int]:
    """Bytes, by place."""
    places = {op: place for place, op in enumerate(layout.order)}
    moved = [layout.step.ops[op].scratch for op in layout.order]
    for buffer in layout.step.buffers:
        used = [places[use] for use in buffer.uses]
        moved[min(used)] += buffer.bytes
        if not buffer.stays:
            moved[max(used)] += buffer.bytes
    return moved
