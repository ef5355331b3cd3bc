"""SavedModels that TensorFlow made go through a container: TensorFlow computes the same with them, bit by bit."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfwave.graph.container import open_container
from tfwave.graph.item import GraphItem
from tfwave.graph.text import canonical
from tfwave.graph.verify import verify
from tfwave.proto.tensorflow_pb2 import GraphDef

pytestmark = pytest.mark.tensorflow
v1 = tf.compat.v1

Outputs = dict[str, dict[str, Any]]
"""By signature and output, as NumPy arrays."""

INPUTS = {
    "scale": {"x": np.linspace(-3, 3, 10, dtype=np.float32).reshape(5, 2)},
    "look_up": {"word": np.array([b"b", b"?", b"a"])},
    "serving_default": {"x": np.linspace(-1, 1, 8, dtype=np.float32).reshape(4, 2)},
}


class Model(tf.Module):
    """Variables, a captured constant, a table with an asset, a loop."""

    def __init__(self, vocabulary: Path) -> None:
        super().__init__()
        generator = tf.random.Generator.from_seed(7)
        self.kernel = tf.Variable(generator.normal([2, 3]))
        self.bias = tf.Variable(generator.normal([3]))
        self.constant = tf.constant([0.1, 0.2, 0.3])
        file = tf.lookup.TextFileInitializer(
            str(vocabulary),
            tf.string,
            tf.lookup.TextFileIndex.WHOLE_LINE,
            tf.int64,
            tf.lookup.TextFileIndex.LINE_NUMBER,
        )
        self.table = tf.lookup.StaticHashTable(file, -1)

    @tf.function(input_signature=[tf.TensorSpec([None, 2], name="x")])
    def scale(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        y = x @ self.kernel + self.bias
        for _ in tf.range(3):
            y = tf.tanh(y) + self.constant
        return {"y": y, "total": tf.reduce_sum(y)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="word")])
    def look_up(self, word: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"id": self.table.lookup(word)}


def save_tf2(path: Path) -> None:
    vocabulary = path.with_suffix(".txt")
    vocabulary.write_text("a\nb\n")
    model = Model(vocabulary)
    tf.saved_model.save(model, str(path), signatures={"scale": model.scale, "look_up": model.look_up})
    vocabulary.unlink()


def save_tf1(path: Path) -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 2], "x")
        kernel = v1.get_variable(
            "kernel", [2, 3], initializer=v1.glorot_normal_initializer(seed=1), use_resource=False
        )
        bias = v1.get_variable("bias", initializer=[0.1, 0.2, 0.3], use_resource=True)
        y = tf.nn.softmax(tf.matmul(x, kernel) + bias, name="y")
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(path), {"x": x}, {"y": y, "logit": tf.math.log(y)})


def run_tf2(path: Path) -> Outputs:
    signatures = tf.saved_model.load(str(path)).signatures
    found = {name: signatures[name](**_tensors(name)) for name in signatures}
    return {name: {key: value.numpy() for key, value in outputs.items()} for name, outputs in found.items()}


def _tensors(signature: str) -> dict[str, tf.Tensor]:
    return {name: tf.constant(value) for name, value in INPUTS[signature].items()}


def run_tf1(path: Path) -> Outputs:
    with tf.Graph().as_default(), v1.Session() as session:
        meta = v1.saved_model.load(session, ["serve"], str(path))
        signatures = {name: s for name, s in meta.signature_def.items() if name in INPUTS}
        return {name: _run(session, name, signature) for name, signature in signatures.items()}


def _run(session: Any, name: str, signature: Any) -> dict[str, Any]:
    feeds = {info.name: INPUTS[name][key] for key, info in signature.inputs.items()}
    return session.run({key: info.name for key, info in signature.outputs.items()}, feeds)


def same_bits(a: Outputs, b: Outputs) -> bool:
    def bits(outputs: Outputs) -> dict[tuple[str, str], tuple[Any, ...]]:
        return {(s, k): (v.dtype, v.shape, v.tobytes()) for s, o in outputs.items() for k, v in o.items()}

    return bits(a) == bits(b)


def untouched(item: GraphItem) -> GraphItem:
    return item


def with_noop(item: GraphItem) -> GraphItem:
    """A NoOp that runs: a fetched tensor waits for it."""
    graph = GraphDef()
    graph.CopyFrom(item.graph)
    graph.node.add(name="tfwave/added", op="NoOp")
    fetched = {name.partition(":")[0] for name in item.fetches}
    for node in graph.node:
        if node.name in fetched:
            node.input.append("^tfwave/added")
    for function in graph.library.function:
        function.node_def.add(name="tfwave_added", op="NoOp")
        function.control_ret["tfwave_added"] = "tfwave_added"
        function.signature.control_output.append("tfwave_added")
    return GraphItem(graph)


def reordered(item: GraphItem) -> GraphItem:
    return GraphItem(canonical(item.graph))


SAVERS = {"tf2": save_tf2, "tf1": save_tf1}
CASES = [("tf2", run_tf2), ("tf2", run_tf1), ("tf1", run_tf2), ("tf1", run_tf1)]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    for name, save in SAVERS.items():
        save(folder / name)
    return {name: folder / name for name in SAVERS}


def rewritten(source: Path, out: Path, change: Callable[[GraphItem], GraphItem]) -> Path:
    container = open_container(str(source))
    container.write([change(item) for _, item in container.items()], str(out))
    return out


@pytest.mark.parametrize("change", [untouched, with_noop, reordered])
@pytest.mark.parametrize(("model", "run"), CASES)
def test_every_signature_gives_the_same_bits(
    models: dict[str, Path],
    tmp_path: Path,
    model: str,
    run: Callable[[Path], Outputs],
    change: Callable[[GraphItem], GraphItem],
) -> None:
    before = run(models[model])
    assert set(before) == ({"scale", "look_up"} if model == "tf2" else {"serving_default"})
    after = run(rewritten(models[model], tmp_path / "out", change))
    assert same_bits(before, after)


@pytest.mark.parametrize("model", SAVERS)
def test_only_the_graph_differs_in_the_eyes_of_tensorflow(
    models: dict[str, Path], tmp_path: Path, model: str
) -> None:
    """TensorFlow's own messages know all the fields that tfwave's leave out."""
    out = rewritten(models[model], tmp_path / "out", with_noop)
    before, after = (_parse(path) for path in (models[model], out))
    assert before != after
    for meta in (*before.meta_graphs, *after.meta_graphs):
        meta.ClearField("graph_def")
    assert before == after


def _parse(path: Path) -> Any:
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    return SavedModel.FromString((path / "saved_model.pb").read_bytes())


def test_the_items_are_what_the_signatures_say(models: dict[str, Path]) -> None:
    ((label, item),) = open_container(str(models["tf1"])).items()
    assert label == "serve"
    assert item.feeds == ("x:0",)
    assert set(item.fetches) == {"y:0", "Log:0"}
    assert {"x", "y", "Log", "kernel", "kernel/Assign", "save/restore_all", "save/Const"} <= item.preserve
    verify(item)


def test_what_the_loaders_feed_and_run_is_preserved(models: dict[str, Path]) -> None:
    ((_, item),) = open_container(str(models["tf2"])).items()
    (meta,) = _parse(models["tf2"]).meta_graphs
    saver = meta.saver_def
    named = [saver.filename_tensor_name, saver.save_tensor_name, saver.restore_op_name]
    named += [asset.tensor_info.name for asset in meta.asset_file_def]
    constants = [node.constant.operation for node in meta.object_graph_def.nodes if node.HasField("constant")]
    assert _nodes(named) | _nodes(constants) <= item.preserve
    assert len(constants) > 0
    verify(item)


def _nodes(names: Sequence[str]) -> set[str]:
    return {name.partition(":")[0] for name in names}


def test_the_functions_of_the_object_graph_are_known(models: dict[str, Path]) -> None:
    from tfwave.graph.saved_model import SavedModelDirectory

    (known,) = SavedModelDirectory.read(models["tf2"]).meta_graphs
    (meta,) = _parse(models["tf2"]).meta_graphs
    assert set(meta.object_graph_def.concrete_functions) <= known.functions


def test_a_fingerprint_goes_along_with_the_graphs_that_it_is_of(
    models: dict[str, Path], tmp_path: Path
) -> None:
    """TensorFlow does not check it: a stale one would be reported as it is."""
    read = tf.saved_model.experimental.read_fingerprint
    same = rewritten(models["tf2"], tmp_path / "same", untouched)
    assert read(str(same)) == read(str(models["tf2"]))
    other = rewritten(models["tf2"], tmp_path / "other", with_noop)
    with pytest.raises(FileNotFoundError):
        read(str(other))
    (other / "fingerprint.pb").write_bytes((same / "fingerprint.pb").read_bytes())
    assert read(str(other)) == read(str(same))
    tf.saved_model.load(str(other))
