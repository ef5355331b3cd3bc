"""A step as bars on lanes, without an order and under it."""

from collections.abc import Mapping
from typing import Any

from tfwave.graph.names import short_channel
from tfwave.plan.plan import Plan
from tfwave.report.drawn.figure import colour_of, new_figure
from tfwave.sim.timeline import Interval, Timeline, in_rows

_LANE_INCHES, _HEAD_INCHES = 0.45, 0.9
_HEIGHT = 0.8
"""Of a lane, the share that bars fill."""
_OP = "0.6"
_UNPLANNED = "tab:red"


def timeline_figure(steps: Mapping[str, Timeline], plan: Plan) -> Any:
    """Each step on axes of its own, all on one axis of time; a transfer's colour is its rank in the plan.

    Ops are grey, and transfers that the plan does not order are red. So a step that keeps the order goes from light
    to dark on each link.

    Raises:
        EnvironmentUnsupported: matplotlib is not installed.
    """
    lanes = _lanes(steps)
    figure = new_figure(len(steps) * (_LANE_INCHES * len(lanes) + _HEAD_INCHES))
    shares = _shares(plan)
    for axes, (title, step) in zip(
        figure.subplots(len(steps), sharex=True, squeeze=False)[:, 0], steps.items(), strict=True
    ):
        _draw(axes, step, lanes, shares)
        axes.set(title=f"{title}: {step.makespan_seconds * 1e3:.1f} ms", ylim=(len(lanes), 0))
        axes.set_yticks([lane + 0.5 for lane in lanes.values()], [short_channel(name) for name in lanes])
    figure.axes[-1].set(
        xlabel="ms; transfers by their rank in the plan: the first light, the last dark", xlim=(0, None)
    )
    return figure


def _lanes(steps: Mapping[str, Timeline]) -> dict[str, int]:
    """Links, then devices, by name: what has bars in any of the steps."""
    found = {(each.kind == "op", each.resource) for step in steps.values() for each in _shown(step)}
    return {resource: number for number, (_, resource) in enumerate(sorted(found))}


def _shown(step: Timeline) -> list[Interval]:
    return [each for each in step.intervals if each.kind != "control" and each.seconds > 0]


def _shares(plan: Plan) -> dict[tuple[str, str], float]:
    """Of each ordered transfer, by channel and edge: how late it goes, from 0 to 1."""
    return {
        (str(order.channel), transfer.edge): transfer.rank / max(1, len(order.transfers) - 1)
        for order in plan.orders
        for transfer in order.transfers
    }


def _draw(
    axes: Any, step: Timeline, lanes: Mapping[str, int], shares: Mapping[tuple[str, str], float]
) -> None:
    rows = [(bar, row) for bar, row in in_rows(_shown(step))]
    deepest = {lane: 1 + max([row for bar, row in rows if bar.resource == lane], default=0) for lane in lanes}
    for lane, number in lanes.items():
        height = _HEIGHT / deepest[lane]
        for row in range(deepest[lane]):
            own = [bar for bar, of in rows if of == row and bar.resource == lane]
            axes.broken_barh(
                [(bar.begin_seconds * 1e3, bar.seconds * 1e3) for bar in own],
                (number + (1 - _HEIGHT) / 2 + row * height, height),
                facecolors=[_colour(bar, shares) for bar in own],
            )


def _colour(bar: Interval, shares: Mapping[tuple[str, str], float]) -> Any:
    if bar.kind == "op":
        return _OP
    share = shares.get((bar.resource, bar.name))
    return _UNPLANNED if share is None else colour_of(share)
