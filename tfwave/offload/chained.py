"""Which ops of a fitted step move its peak, so that they must keep their turn."""

from tfwave.offload.forecast import Forecast

FREE_SHARE = 0.02
"""Of the peak: what all ops together that keep no turn may hold."""


def chained_ops(forecast: Forecast) -> tuple[int, ...]:
    """All ops in their order, but for those that hold the fewest bytes, 2 % of the peak in all.

    Whenever the others run, the peak is no more than these 2 % above that of the order. An op holds the buffers
    that it uses, and its scratch: one that comes late keeps what it reads, and one that comes early finds what it
    could go on in still read by others, and allocates.
    """
    layout = forecast.choice.layout
    held = [
        layout.step.ops[op].scratch + sum(layout.step.buffers[b].bytes for b in layout.step.used[op])
        for op in layout.order
    ]
    left, free = FREE_SHARE * forecast.peak, set[int]()
    for place in sorted(range(len(held)), key=held.__getitem__):
        left -= held[place]
        if left < 0:
            break
        free.add(place)
    return tuple(op for place, op in enumerate(layout.order) if place not in free)
