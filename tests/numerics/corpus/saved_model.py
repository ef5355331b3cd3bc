"""SavedModels with two signatures, variables and a vocabulary file: of TensorFlow 2, and of TensorFlow 1."""

import tempfile
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tests.numerics.corpus.sample import Array

v1 = tf.compat.v1
WORDS = ("red", "green", "blue")
WIDTH = 4
INPUTS = {
    "values": np.linspace(-1, 1, 2 * WIDTH, dtype=np.float32).reshape(2, WIDTH),
    "words": np.array([b"blue", b"unknown", b"red"]),
}
"""What each signature is called with, by the name of its input."""

Outputs = dict[str, dict[str, Array]]
"""signature -> output -> value."""


@dataclass(frozen=True)
class SavedModelSample:
    """How to write a SavedModel to a directory, and how to load and call all that it offers."""

    name: str
    build: Callable[[Path], None]
    call: Callable[[Path], Outputs]
    """Loads afresh: two calls give the same bits."""


class _Scorer(tf.Module):
    """Scores rows of values and words; counts its calls."""

    def __init__(self, vocabulary: str) -> None:
        super().__init__("scorer")
        weights = _weights()
        self.kernel = tf.Variable(weights["kernel"], name="kernel")
        self.embedding = tf.Variable(weights["embedding"], name="embedding")
        self.calls = tf.Variable(0.0, name="calls")
        self.table = _table(tf.saved_model.Asset(vocabulary).asset_path)

    @tf.function(input_signature=[tf.TensorSpec([None, WIDTH], tf.float32, "values")])
    def score(self, values):
        hidden = tf.tanh(values @ self.kernel)
        return {"scores": tf.reduce_sum(hidden, 1), "calls": self.calls.assign_add(1.0)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "words")])
    def embed(self, words):
        return {"vectors": tf.gather(self.embedding, self.table.lookup(words)) @ self.kernel}


def build(path: Path) -> None:
    """Write the SavedModel of a `tf.Module`."""
    with _vocabulary() as vocabulary:
        scorer = _Scorer(vocabulary)
        tf.saved_model.save(scorer, str(path), {"serving_default": scorer.score, "embed": scorer.embed})


def call(path: Path) -> Outputs:
    """Load with `tf.saved_model.load`, call each signature twice, keep the second outputs."""
    signatures = tf.saved_model.load(str(path)).signatures
    outputs: Outputs = {}
    for name in sorted(signatures):
        inputs = {key: tf.constant(INPUTS[key]) for key in signatures[name].structured_input_signature[1]}
        signatures[name](**inputs)
        outputs[name] = {key: value.numpy() for key, value in sorted(signatures[name](**inputs).items())}
    return outputs


def build_v1(path: Path) -> None:
    """Write the SavedModel of a graph, with the builder of TensorFlow 1."""
    with _vocabulary() as vocabulary, tf.Graph().as_default(), v1.Session() as session:
        weights = {k: v1.Variable(v, name=k, use_resource=True) for k, v in _weights().items()}
        calls = v1.Variable(0.0, name="calls", use_resource=True)
        values = v1.placeholder(tf.float32, [None, WIDTH], "values")
        words = v1.placeholder(tf.string, [None], "words")
        scores = tf.reduce_sum(tf.tanh(values @ weights["kernel"]), 1, name="scores")
        ids = _table(vocabulary).lookup(words)
        vectors = tf.matmul(tf.gather(weights["embedding"], ids), weights["kernel"], name="vectors")
        counted = tf.identity(calls.assign_add(1.0), name="counted")
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.Builder(str(path))
        builder.add_meta_graph_and_variables(
            session,
            [v1.saved_model.SERVING],
            signature_def_map={
                "serving_default": _signature({"values": values}, {"scores": scores, "calls": counted}),
                "embed": _signature({"words": words}, {"vectors": vectors}),
            },
            assets_collection=v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS),
            main_op=v1.tables_initializer(),
        )
        builder.save()


def call_v1(path: Path) -> Outputs:
    """Load into a session, run each signature with inputs twice, keep the second outputs."""
    outputs: Outputs = {}
    with v1.Session(graph=tf.Graph()) as session:
        meta = v1.saved_model.load(session, [v1.saved_model.SERVING], str(path))
        called = {name: one for name, one in meta.signature_def.items() if one.inputs}
        for name, signature in sorted(called.items()):
            fetches = {key: info.name for key, info in sorted(signature.outputs.items())}
            feeds = {info.name: INPUTS[key] for key, info in signature.inputs.items()}
            session.run(fetches, feeds)
            outputs[name] = {k: np.asarray(v) for k, v in session.run(fetches, feeds).items()}
    return outputs


SAVED_MODELS = (
    SavedModelSample("saved_model", build, call),
    SavedModelSample("saved_model_v1", build_v1, call_v1),
)


def _weights() -> dict[str, Array]:
    generator = np.random.default_rng(7)
    shapes = {"kernel": (WIDTH, WIDTH), "embedding": (len(WORDS) + 1, WIDTH)}
    return {name: generator.standard_normal(shape, np.float32) for name, shape in shapes.items()}


def _table(vocabulary: Any) -> Any:
    """Word -> its line in the vocabulary; the unknown word has the last number."""
    text = tf.lookup.TextFileInitializer(
        vocabulary,
        tf.string,
        tf.lookup.TextFileIndex.WHOLE_LINE,
        tf.int64,
        tf.lookup.TextFileIndex.LINE_NUMBER,
    )
    return tf.lookup.StaticHashTable(text, len(WORDS))


def _signature(inputs: dict[str, Any], outputs: dict[str, Any]) -> Any:
    return v1.saved_model.predict_signature_def(inputs, outputs)


@contextmanager
def _vocabulary():
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "vocabulary.txt"
        path.write_text("".join(f"{word}\n" for word in WORDS))
        yield str(path)
