"""The corpus itself: what the tests of graph passes lean on."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.full import each
from tests.numerics.corpus import FUNCTIONS, LARGE, SAMPLES, load, reference
from tests.numerics.corpus.function import FunctionSample
from tests.numerics.corpus.lstm import LEARNING_RATE
from tests.numerics.corpus.sample import first_fetch, same_bits
from tests.numerics.corpus.saved_model import SAVED_MODELS, SavedModelSample
from tfwave.graph.names import edge_source
from tfwave.graph.verify import verify
from tfwave.proto.tensorflow_pb2 import GraphDef, NodeDef

pytestmark = pytest.mark.tensorflow

TRANSFERS = {
    "keras3_step": 100,
    "transformer_step": 70,
    "lstm_step": 6,
    "small_calls_function": 10,
    "small_branches_function": 6,
    "resnet50_step": 350,
    "inception_v3_step": 400,
    "lstm_step_v1": 15,
    "small_ports": 10,
    "small_branches": 5,
    "small_control_edges": 5,
    "small_strings": 5,
    "small_calls": 2,
    "resnet50_step_on_tasks": 350,
    "lstm_step_v1_on_tasks": 15,
    "small_control_edges_on_tasks": 5,
}
"""At least so many tensors cross devices in a step without Grappler."""

LOOPS = ["lstm_step", "lstm_step_v1", "lstm_step_v1_on_tasks"]
"""One sample of each kind."""

Edge = tuple[str, str, str]


def edges(partitions: Iterable[bytes]) -> Counter[Edge]:
    """(source node, sending device, receiving device) of all that crosses devices, tensors and control edges."""
    graphs = [GraphDef.FromString(partition) for partition in partitions]
    receives = [n for g in graphs for n in g.node if n.op in ("_Recv", "_HostRecv")]
    crossing = [n for n in receives if not n.attr["client_terminated"].b]
    keys = [[n.attr[k].s.decode() for k in ("tensor_name", "send_device", "recv_device")] for n in crossing]
    return Counter((edge_source(edge), source, destination) for edge, source, destination in keys)


def data_edges(partitions: Iterable[bytes]) -> int:
    """How many tensors cross; a control edge crosses as an empty constant."""
    count = 0
    for partition in partitions:
        graph = GraphDef.FromString(partition)
        empty = {n.name for n in graph.node if n.op == "Const" and 0 in shape(n)}
        sends = [
            n for n in graph.node if n.op in ("_Send", "_HostSend") and not n.attr["client_terminated"].b
        ]
        count += sum(n.input[0] not in empty for n in sends)
    return count


def nodes(partitions: Iterable[bytes]) -> int:
    return sum(len(GraphDef.FromString(partition).node) for partition in partitions)


def shape(node: NodeDef) -> list[int]:
    return [dim.size for dim in node.attr["value"].tensor.tensor_shape.dim]


def scalar(node: NodeDef) -> float | None:
    tensor = node.attr["value"].tensor
    return tensor.float_val[0] if len(tensor.float_val) == 1 else None


@pytest.mark.parametrize("grappler", [False, True], ids=["plain", "grappler"])
@pytest.mark.parametrize("name", each(SAMPLES, LARGE))
def test_two_runs_give_the_same_bits(name: str, grappler: bool) -> None:
    sample = load(name)
    first = reference(name, grappler=grappler)
    assert same_bits(first, sample.run(sample.graph, grappler=grappler))
    assert all(np.isfinite(value).all() for value in first if value.dtype.kind == "f")
    losses = first_fetch(sample, first, 2)
    assert losses[0].shape == ()
    assert losses[0] != losses[1]


@pytest.mark.parametrize("name", each(SAMPLES, LARGE))
def test_the_graph_is_sound_and_is_cut(name: str) -> None:
    sample = load(name)
    verify(sample.item())
    partitions = sample.partition_graphs(sample.graph)
    assert data_edges(partitions) >= TRANSFERS[name]
    assert {e[i] for e in edges(partitions) for i in (1, 2)} <= set(sample.devices)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_imported_function_is_the_traced_one(name: str) -> None:
    sample = SAMPLES[name]()
    assert isinstance(sample, FunctionSample)
    assert edges(sample.partition_graphs_traced()) == edges(sample.partition_graphs(sample.graph))
    for grappler in (False, True):
        assert same_bits(sample.run_traced(grappler=grappler), sample.run(sample.graph, grappler=grappler))


@pytest.mark.parametrize("name", LOOPS)
def test_grappler_is_off_and_on(name: str) -> None:
    sample = load(name)
    plain, optimised = (sample.partition_graphs(sample.graph, grappler=on) for on in (False, True))
    assert nodes(optimised) < nodes(plain)


@pytest.mark.parametrize("name", LOOPS)
def test_what_runs_is_the_graph_that_is_given(name: str) -> None:
    sample = load(name)
    changed = GraphDef.FromString(sample.graph)
    rates = [n for n in changed.node if n.op == "Const" and scalar(n) == LEARNING_RATE]
    assert rates
    for node in rates:
        node.attr["value"].tensor.float_val[:] = [LEARNING_RATE / 2]
    after = sample.run(changed.SerializeToString(), grappler=True)
    before = reference(name, grappler=True)
    assert same_bits(before[:1], after[:1])
    assert not any(same_bits([b], [a]) for b, a in zip(before[1:], after[1:], strict=True))


@pytest.mark.parametrize("sample", SAVED_MODELS, ids=lambda s: s.name)
def test_saved_models_give_the_same_bits(sample: SavedModelSample, tmp_path: Path) -> None:
    sample.build(tmp_path / "model")
    first, second = sample.call(tmp_path / "model"), sample.call(tmp_path / "model")
    assert sorted(first) == ["embed", "serving_default"]
    assert first["serving_default"]["calls"] == 2
    assert tf.saved_model.contains_saved_model(str(tmp_path / "model"))
    for signature, outputs in first.items():
        assert same_bits(list(outputs.values()), list(second[signature].values()))
