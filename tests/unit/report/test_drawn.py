"""A step as a picture: what lies where, in which colour."""

from typing import Any

import pytest

from tests.bundles import small_bundle
from tfwave.bundle.costs import bundle_network
from tfwave.planner.captured import plan_bundle
from tfwave.planner.forecast import simulated
from tfwave.report.drawn.timeline import timeline_figure

LINK = "ps:0/CPU:0 -> worker:0/CPU:0"


@pytest.fixture(scope="module")
def figure() -> Any:
    pytest.importorskip("matplotlib")
    bundle = small_bundle()
    plan = plan_bundle(bundle, "reverse")
    steps = simulated(bundle.transfers.data, bundle_network(bundle), plan.orders)
    return timeline_figure({"before": steps.free.timeline, "after": steps.ordered.timeline}, plan)


def bars(axes: Any, lane: str) -> list[tuple[float, float, tuple[float, ...]]]:
    """Begin and end in ms, and colour, in turn."""
    lanes = [label.get_text() for label in axes.get_yticklabels()]
    place = lanes.index(lane)
    found: list[tuple[float, float, tuple[float, ...]]] = []
    for collection in axes.collections:
        for path, colour in zip(collection.get_paths(), collection.get_facecolors(), strict=True):
            box = path.get_extents()
            if place < box.y0 < box.y1 < place + 1:
                found.append((box.x0, box.x1, tuple(colour)))
    return sorted(found)


def test_each_step_says_how_long_it_takes_and_both_have_the_same_lanes(figure: Any) -> None:
    before, after = figure.axes
    assert before.get_title().startswith("before: ")
    last = max(end for lane in labels(after) for _, end, _ in bars(after, lane))
    assert after.get_title() == f"after: {last:.1f} ms"
    assert labels(before) == labels(after)
    assert labels(after)[:2] == [LINK, "worker:0/CPU:0 -> ps:0/CPU:0"]


def labels(axes: Any) -> list[str]:
    return [label.get_text() for label in axes.get_yticklabels()]


def test_an_ordered_link_goes_from_light_to_dark(figure: Any) -> None:
    import matplotlib as mpl

    viridis = mpl.colormaps["viridis_r"]
    *_, after = figure.axes
    assert [colour for *_, colour in bars(after, LINK)] == [
        pytest.approx(viridis(s)) for s in (0.0, 0.5, 1.0)
    ]


def test_what_no_plan_orders_is_red_and_ops_are_grey(figure: Any) -> None:
    from matplotlib.colors import to_rgba

    *_, after = figure.axes
    ((*_, colour),) = bars(after, "worker:0/CPU:0 -> ps:0/CPU:0")
    assert colour == pytest.approx(to_rgba("tab:red"))
    assert {colour for *_, colour in bars(after, "worker:0/CPU:0")} == {to_rgba("0.6")}
