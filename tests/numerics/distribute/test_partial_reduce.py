"""`tfwave.keras.PartialReduce` in one process: what it refuses, what it leaves behind, and one worker alone."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tests.events import told_events
from tests.ports import free_ports
from tfwave.errors import EnforcerError, TfwaveError
from tfwave.keras import PartialReduce
from tfwave.reduce.service import Coordinator

X = np.random.default_rng(1).normal(size=(40, 3)).astype("f")
Y = X @ np.ones((3, 1), "f")
IDS = np.concatenate([np.random.default_rng(i).permutation(30)[:24].reshape(8, 3) for i in range(5)])
"""In each batch of 8 no number comes twice, and six do not come."""


def callback(**rules: Any) -> PartialReduce:
    return PartialReduce(workers=[f"127.0.0.1:{free_ports(1)[0]}"], rank=0, patience=60, **rules)


def model(
    *, dtype: str | None = None, scaled: bool = False, xla: bool = False, **compiled: Any
) -> keras.Model:
    keras.utils.set_random_seed(3)
    made = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, dtype=dtype), keras.layers.Dense(1)])
    adam = keras.optimizers.Adam()
    made.compile(keras.optimizers.LossScaleOptimizer(adam) if scaled else adam, "mse", **compiled)
    made._jit_compile = xla  # Keras itself asks for none where there are CPUs only
    return made


def trained(made: keras.Model, *callbacks: Any) -> list[np.ndarray]:
    for _ in range(2):
        made.fit(X, Y, 8, 2, verbose=0, callbacks=list(callbacks))
    return [np.asarray(each) for each in (*made.weights, *made.optimizer.variables)]


@pytest.mark.parametrize("dtype", [None, "mixed_bfloat16"])
def test_one_worker_alone_trains_as_ever_and_tells_of_it(dtype: str | None, tmp_path: Path) -> None:
    """Two fits of two epochs of five steps; nothing tells how long the first step of a fit took."""
    reduced = trained(model(dtype=dtype), callback(probes="all", report_dir=tmp_path))
    for ours, theirs in zip(reduced, trained(model(dtype=dtype)), strict=True):
        assert ours.tobytes() == theirs.tobytes()
    told = told_events(tmp_path / "worker_0")
    assert told["scalars"]["tfwave/reduces"] == [5, 10, 5, 10]
    assert told["scalars"]["tfwave/joined"] == [1, 1, 1, 1]
    assert told["scalars"]["tfwave/dropped"] == [0, 0, 0, 0]
    steps = [sum(count for _, _, count in made) for made in told["histograms"]["tfwave/seconds"]]
    assert steps == [4, 5, 4, 5]
    text = (tmp_path / "worker_0" / "reduces.md").read_text()
    assert "* **10** reduces counted, 0 broke\n" in text
    assert "| 0 | 9 | " in text
    assert "tfwave report of worker 0 of 1" in (tmp_path / "worker_0" / "reduces.html").read_text()


@pytest.mark.parametrize(("kind", "optimizer"), [(keras, "Adam"), (keras, "RMSprop"), (tf_keras, "Adam")])
def test_rows_that_a_step_does_not_look_up_are_left_alone_as_ever(kind: Any, optimizer: str) -> None:
    """Keras 3's Adam neither moves them nor lets their moments decay; its RMSprop adds rows to rows."""

    def fitted(*callbacks: Any) -> list[bytes]:
        kind.utils.set_random_seed(3)
        layers = [kind.layers.Embedding(30, 4), kind.layers.Flatten(), kind.layers.Dense(1)]
        made = kind.Sequential([kind.Input((3,), dtype="int32"), *layers])
        made.compile(getattr(kind.optimizers, optimizer)(0.1), "mse")
        made.fit(IDS, Y, 8, 2, verbose=0, shuffle=False, callbacks=list(callbacks))
        return [np.asarray(each).tobytes() for each in (*made.weights, *made.optimizer.variables)]

    assert fitted(callback(probes="all")) == fitted()


class Failing(keras.callbacks.Callback):
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if batch == 3:  # some reduces were counted, whoever notices the end of the fit first
            raise RuntimeError("stop here")


def test_a_fit_that_fails_leaves_the_model_as_it_was_and_its_page(tmp_path: Path) -> None:
    made, reduce = model(), callback(report_dir=tmp_path)
    with pytest.raises(RuntimeError, match="stop here"):
        made.fit(X, Y, 8, verbose=0, callbacks=[reduce, Failing()])
    reduce.on_train_end()
    assert re.search(r"\* \*\*[1-4]\*\* reduces counted", (tmp_path / "worker_0" / "reduces.md").read_text())
    assert "apply" not in vars(made.optimizer)
    made.fit(X, Y, 8, verbose=0, callbacks=[reduce])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"run_eagerly": True}, "runs eagerly"),
        ({"xla": True}, "is compiled by XLA"),
        ({"scaled": True}, "scales its loss"),
        ({"dtype": "float64"}, "variables to train are of 2 types"),
    ],
)
def test_models_that_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(TfwaveError, match=said):
        model(**changes).fit(X, Y, verbose=0, callbacks=[callback()])


class _Called(tf_keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.only = tf_keras.layers.Dense(1)

    def call(self, inputs: Any) -> Any:
        return self.only(inputs)


@pytest.mark.parametrize("make", [lambda: keras.Sequential([keras.layers.Dense(1)]), _Called])
def test_a_model_that_has_no_weights_yet_is_refused_with_the_way_out(make: Callable[[], Any]) -> None:
    made = make()
    made.compile("sgd", "mse")
    with pytest.raises(
        TfwaveError, match=r"has no weights to train, .*: make it with an Input, or call it once"
    ):
        made.fit(X, Y, verbose=0, callbacks=[callback()])
    made(X[:1])
    made.fit(X, Y, verbose=0, callbacks=[callback()])


class _Two(keras.Sequential):
    """With an optimizer to itself, as a GAN has two."""

    def __init__(self) -> None:
        super().__init__(model().layers)
        self.other: Any = [keras.optimizers.Adam(name="second")]


@pytest.mark.parametrize(
    ("optimizer", "said"),
    [
        ("sgd", r"has other optimizers, second, .* by the one of compile\(\)"),
        (None, "compiled with no optimizer"),
    ],
)
def test_a_model_of_several_optimizers_is_refused(optimizer: str | None, said: str) -> None:
    made = _Two()
    made.compile(optimizer, "mse")
    with pytest.raises(TfwaveError, match=said):
        made.fit(X, Y, verbose=0, callbacks=[callback()])


def test_an_optimizer_of_a_model_in_the_model_is_none_of_its_own() -> None:
    """As that of a teacher, which was trained before."""
    made = keras.Sequential([keras.Input((3,)), model(), keras.layers.Dense(1)])
    made.compile("sgd", "mse")
    made.fit(X, Y, verbose=0, callbacks=[callback()])


def test_mixed_float16_is_refused_unless_the_loss_is_not_scaled() -> None:
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_float16")
    try:
        scaled, *alike = model(), model(auto_scale_loss=False), model(auto_scale_loss=False)
    finally:
        keras.config.set_dtype_policy(before)
    with pytest.raises(TfwaveError, match="scales its loss"):
        scaled.fit(X, Y, verbose=0, callbacks=[callback()])
    reduced = trained(alike[0], callback(probes="all"))
    for ours, theirs in zip(reduced, trained(alike[1]), strict=True):
        assert ours.tobytes() == theirs.tobytes()


def test_mixed_float16_of_tf_keras_is_refused_with_another_way_out() -> None:
    """It scales the loss whatever `compile` is told."""
    tf_keras.utils.set_random_seed(1)
    tf_keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        made = tf_keras.Sequential([tf_keras.Input((3,)), tf_keras.layers.Dense(1)])
        made.compile("sgd", "mse")
    finally:
        tf_keras.mixed_precision.set_global_policy(None)  # that of `floatx`, which other tests change
    with pytest.raises(TfwaveError, match=r"scales its loss, .*: take mixed_bfloat16"):
        made.fit(X, Y, verbose=0, callbacks=[callback()])


def test_a_model_of_a_strategy_is_refused() -> None:
    with tf.distribute.OneDeviceStrategy("CPU:0").scope():
        made = model()
    with pytest.raises(TfwaveError, match="belongs to a strategy"):
        made.fit(X, Y, verbose=0, callbacks=[callback()])


def test_the_end_of_the_reduces_is_told_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    class Ending(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            coordinator.stop()

    coordinator = Coordinator()
    config = {
        "cluster": {"worker": ["127.0.0.1:1"]},
        "task": {"type": "worker", "index": 0},
        "tfwave": {"reduce": coordinator.address},
    }
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    with pytest.raises(EnforcerError, match="coordinator has ended"):
        model().fit(X, Y, 8, verbose=0, callbacks=[PartialReduce(patience=60), Ending()])
