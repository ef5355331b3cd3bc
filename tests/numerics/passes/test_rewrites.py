"""Every pass on real graphs: well-formed, idempotent, undone exactly, and with the same bits."""

from itertools import pairwise

import pytest

from grappler_passes.ack_window import AckWindow
from grappler_passes.control_edges import ControlEdges
from grappler_passes.counter_barrier import CounterBarrier
from grappler_passes.cut import Cut
from tests.full import each
from tests.numerics.corpus import FUNCTIONS, LARGE, SESSIONS, load, reference
from tests.numerics.corpus.sample import same_bits
from tests.numerics.passes.plans import NoteAll
from tests.rewrites import check_rewrite, graph_bytes
from tfwave.graph.item import GraphItem
from tfwave.graph.names import parse_input
from tfwave.graph.reach import in_control_flow, upstream_of
from tfwave.graph.view import GraphView
from tfwave.passes.base import Transform
from tfwave.passes.pipeline import Pipeline

pytestmark = pytest.mark.tensorflow

LOCAL = [*FUNCTIONS, *SESSIONS]


def check_bits(name: str, transform: Transform, settings: tuple[bool, ...] = (False, True)) -> None:
    sample = load(name)
    item = check_rewrite(transform, sample.item()).item
    for grappler in settings:
        got = sample.run(graph_bytes(item), grappler=grappler)
        assert same_bits(got, reference(name, grappler=grappler)), f"grappler={grappler}"


@pytest.mark.parametrize("window", each([1, 4], [1]))
@pytest.mark.parametrize("name", each(LOCAL, LARGE))
def test_ack_window(name: str, window: int) -> None:
    check_bits(name, Pipeline((NoteAll(load(name).devices), AckWindow(window))))


@pytest.mark.parametrize("name", each(LOCAL, LARGE))
def test_counter_barrier(name: str) -> None:
    view = GraphView.of(load(name).item().graph)
    names = [view.names[node] for node in _of_the_step_alone(load(name).item(), view)]
    cuts = [0, len(names) // 3, 2 * len(names) // 3, len(names)]
    check_bits(name, CounterBarrier(tuple(tuple(names[a:b]) for a, b in pairwise(cuts))))


def _of_the_step_alone(item: GraphItem, view: GraphView) -> list[int]:
    """In order: without branches and loops, and without what the initialisation needs as well."""
    index = {name: i for i, name in enumerate(view.names)}
    step = upstream_of(view, [index[parse_input(name).node] for name in item.fetches])
    others = upstream_of(view, [index[name] for name in item.preserve])
    inside = in_control_flow(view)
    outside = [n for n in view.topological_order if inside.isdisjoint((n, *view.fanins[n]))]
    return [node for node in outside if node in step and node not in others]


@pytest.mark.parametrize("name", [name for name in LOCAL if name not in LARGE])
def test_cut(name: str) -> None:
    check_bits(name, Cut(load(name).devices), _settings(name))


@pytest.mark.parametrize("name", each(LOCAL, LARGE))
def test_control_edges(name: str) -> None:
    devices = load(name).devices
    check_bits(name, Pipeline((Cut(devices), NoteAll(), ControlEdges())), _settings(name))


def _settings(name: str) -> tuple[bool, ...]:
    """Grappler off and on.

    Only off for the one sample in which its arithmetic optimizer turns chains of sums into one where it knows all
    shapes: of a received tensor it knows none, so it sums a cut graph in another order.
    """
    return (False,) if name == "transformer_step" else (False, True)
