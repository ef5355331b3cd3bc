"""A SavedModel goes through a pass and back: every signature gives the same bits each time."""

from pathlib import Path

import pytest

from grappler_passes.counter_barrier import CounterBarrier
from grappler_passes.inline import Inline
from grappler_passes.strip import Strip
from tests.numerics.corpus.sample import same_bits
from tests.numerics.corpus.saved_model import SAVED_MODELS, Outputs, SavedModelSample, call_v1
from tests.rewrites import check_rewrite
from tfwave.graph.container import open_container
from tfwave.graph.item import GraphItem
from tfwave.graph.reach import in_control_flow, upstream_of
from tfwave.graph.text import canonical_bytes
from tfwave.graph.view import GraphView

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize("sample", SAVED_MODELS, ids=lambda sample: sample.name)
def test_a_barrier_and_its_undoing(sample: SavedModelSample, tmp_path: Path) -> None:
    original, out, back = (tmp_path / name for name in ("original", "out", "back"))
    sample.build(original)
    container = open_container(str(original))
    ((_, item),) = container.items()
    container.write([check_rewrite(barrier(item), item).item], str(out))
    rewritten = open_container(str(out))
    ((_, again),) = rewritten.items()
    assert len(again.graph.node) == len(item.graph.node) + 1
    rewritten.write([Strip()(again).item], str(back))
    ((_, undone),) = open_container(str(back)).items()
    assert canonical_bytes(undone.graph) == canonical_bytes(item.graph)
    for path in (out, back):
        assert_same(sample.call(path), sample.call(original))


def test_functions_that_are_inlined_are_for_other_passes_to_see(tmp_path: Path) -> None:
    """In the graph that sessions run; what `tf.saved_model.load` calls is not touched."""
    sample, out = SAVED_MODELS[0], tmp_path / "out"
    sample.build(tmp_path / "original")
    container = open_container(str(tmp_path / "original"))
    ((_, item),) = container.items()
    assert "MatMul" not in {node.op for node in item.graph.node}
    inlined = check_rewrite(Inline(), item).item
    assert "MatMul" in {node.op for node in inlined.graph.node}
    rewritten = barrier(inlined)(inlined).item
    assert canonical_bytes(Strip()(rewritten).item.graph) == canonical_bytes(item.graph)
    container.write([rewritten], str(out))
    for run in (call_v1, sample.call):
        assert_same(run(out), run(tmp_path / "original"))


def barrier(item: GraphItem) -> CounterBarrier:
    """Between the two halves of what only the first fetched tensor needs; else between any two sources."""
    view = GraphView.of(item.graph)
    index = {name: i for i, name in enumerate(view.names)}
    fetched = index[item.fetches[0].partition(":")[0]]
    others = upstream_of(view, [index[name] for name in item.preserve if index[name] != fetched])
    others |= in_control_flow(view)
    alone = upstream_of(view, [fetched]) - others
    names = [view.names[node] for node in view.topological_order if node in alone]
    if len(names) < 2:
        names = [name for name, fanins in zip(view.names, view.fanins, strict=True) if not fanins][:2]
    return CounterBarrier((tuple(names[: len(names) // 2]), tuple(names[len(names) // 2 :])))


def assert_same(first: Outputs, second: Outputs) -> None:
    assert first.keys() == second.keys()
    for name in first:
        assert first[name].keys() == second[name].keys()
        assert same_bits(list(first[name].values()), list(second[name].values()))
