"""Dymem's own algorithms (4.1.2), mended: all that can be is offloaded, whatever the limit, and searched for.

Algorithm 3 as printed never sets what it tests, and its branch for convolutions never stops. Mended: each layer
looks ahead along the flow, and fetches what the layers there want, up to the second convolution. A product of
matrices counts as one, as both keep the compute lane busy.
"""

from dataclasses import replace

from tfwave.offload.choice import Choice
from tfwave.offload.layout import Layout, Method
from tfwave.offload.orders import depth_first_order
from tfwave.offload.step import Phase, TrainingStep

_MOST_HEAVY = 2


def dymem_choice(step: TrainingStep) -> Choice:
    """Its order, all candidates offloaded, and its prefetch points."""
    layout = Layout.of(step, depth_first_order(step), 0)
    candidates = tuple(replace(c, fetched=_fetch_place(layout, c.left, c.wanted)) for c in layout.candidates)
    return Choice.all_of(replace(layout, candidates=candidates), Method.OFFLOAD)


def _fetch_place(layout: Layout, left: int, wanted: int) -> int:
    """The first place in the backward pass from which at most two heavy ops lead to the one that wants it."""
    heavy, place = 0, wanted
    while place > left + 2:
        before = layout.step.ops[layout.order[place - 1]]
        heavy += before.is_heavy
        if heavy > _MOST_HEAVY or before.phase is not Phase.BACKWARD:
            break
        place -= 1
    return place
