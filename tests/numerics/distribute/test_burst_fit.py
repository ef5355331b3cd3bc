"""`fit` by a burst plan trains what one device trains, and gives the model back."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.events import told_events
from tests.numerics.distribute.bursts import BATCH, made, places, plan_of
from tests.waiting import wait_until
from tfwave.errors import PlanError, TfwaveError
from tfwave.keras import BurstCallback
from tfwave.plan.io import load_plan

pytestmark = pytest.mark.tensorflow
L = keras.layers
FULL, RAGGED = 2 * BATCH, BATCH + 4
"""Samples; with the second the last batch is smaller."""


@pytest.fixture(autouse=True)
def seeded() -> None:
    keras.utils.set_random_seed(7)


def data(samples: int = BATCH) -> tuple[Any, Any, Any]:
    draw = np.random.default_rng(1)
    inputs = draw.standard_normal((samples, 6, 6, 2)).astype("float32")
    return inputs, draw.integers(0, 3, samples), draw.uniform(0.5, 2, samples)


def dense() -> Any:
    with tf.device("/device:CPU:2"):
        return keras.Sequential([keras.Input((4,)), L.Dense(3, use_bias=False)])


def compiled(name: str = "vgg", **options: Any) -> Any:
    model = made(name)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    given = {"optimizer": keras.optimizers.Adam(0.003, epsilon=1e-3), "loss": loss, "jit_compile": False}
    model.compile(**(given | {"weighted_metrics": ["accuracy"]} | options))
    return model


def fitted(kind: str | None, samples: int) -> tuple[dict[str, list[float]], list[Any]]:
    model = compiled()
    inputs, classes, weights = data(samples)
    callbacks = [] if kind is None else [BurstCallback(plan_of(places(model, kind)))]
    history = model.fit(
        inputs,
        classes,
        sample_weight=weights,
        batch_size=BATCH,
        shuffle=False,
        epochs=2,
        verbose=0,
        callbacks=callbacks,
        validation_data=(inputs, classes),
        validation_batch_size=BATCH,
    )
    return history.history, [variable.numpy() for variable in model.variables]


def test_one_device_trains_the_same_bits() -> None:
    """Weights, moving averages, the states of seeds, and what is logged."""
    logs, values = fitted("one", FULL)
    wanted_logs, wanted = fitted(None, FULL)
    assert logs == wanted_logs
    assert all(np.array_equal(*pair) for pair in zip(values, wanted, strict=True))


def test_several_devices_train_the_same() -> None:
    logs, values = fitted("turns", RAGGED)
    wanted_logs, wanted = fitted(None, RAGGED)
    assert logs["accuracy"] == wanted_logs["accuracy"]
    assert logs["loss"] == pytest.approx(wanted_logs["loss"], rel=1e-4)
    assert logs["val_loss"] == pytest.approx(wanted_logs["val_loss"], rel=1e-4)
    for one, other in zip(values, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)


class Watching(L.Layer):
    """What it changes is none of its weights: the state of Keras's own generator, and a metric."""

    def __init__(self) -> None:
        super().__init__(name="watching")
        self.seen = keras.metrics.Mean("seen")

    def call(self, values: Any) -> Any:
        noisy = values + keras.random.normal(keras.ops.shape(values))
        self.seen.update_state(noisy)
        return noisy


def watched(kind: str | None) -> dict[str, list[float]]:
    keras.backend.clear_session()  # the generator of Keras 3.5 goes on behind a new seed
    keras.utils.set_random_seed(7)
    model = keras.Sequential([keras.Input((4,)), Watching(), L.Dense(3)])
    model.compile("sgd", "mse", jit_compile=False)
    callbacks = [] if kind is None else [BurstCallback(plan_of(places(model, kind)))]
    batches = np.ones((FULL, 4), "float32"), np.ones((FULL, 3), "float32")
    fitted = model.fit(*batches, batch_size=BATCH, shuffle=False, epochs=3, verbose=0, callbacks=callbacks)
    return fitted.history


def test_what_a_layer_changes_that_is_no_weight_of_it_is_changed() -> None:
    logs = watched("one")
    assert logs == watched(None)
    assert len(set(logs["seen"])) == len(logs["seen"])
    with pytest.raises(TfwaveError, match=r"layer 'watching' changes .*seed"):
        watched("all")


def test_slots_lie_with_their_weights() -> None:
    model = dense()
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), "mse", jit_compile=False)
    names = [f"/device:CPU:{number}" for number in (1, 0, 2)]
    batch = np.ones((BATCH, 4)), np.ones((BATCH, 3))
    plan = plan_of(places(model, "all"))
    model.fit(*batch, batch_size=BATCH, verbose=0, callbacks=[BurstCallback(plan, devices=names)])
    slots = [variable.value.device[-5:] for variable in model.optimizer.variables[2:]]
    assert slots == ["CPU:2"]


def test_a_directory_gets_the_plan_its_page_and_what_tensorboard_shows(tmp_path: Path) -> None:
    model = dense()
    model.compile("sgd", "mse", jit_compile=False)
    plan = plan_of(places(model, "all"))
    callback = BurstCallback(plan, report_dir=tmp_path / "told")
    model.fit(np.ones((BATCH, 4)), np.ones((BATCH, 3)), batch_size=BATCH, verbose=0, callbacks=[callback])
    assert load_plan(tmp_path / "told" / "burst.plan.json").layers == plan.layers
    assert "dense" in (tmp_path / "told" / "burst.html").read_text()
    events = told_events(tmp_path / "told")
    assert [tag for tags in events.values() for tag in tags] == ["tfwave/plan/burst"]


class Failing(keras.callbacks.Callback):
    stock: Any = None

    def on_train_begin(self, logs: Any = None) -> None:
        self.stock = self.model.train_function

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        raise RuntimeError("stopped")


def test_an_exception_gives_the_model_back() -> None:
    model = compiled()
    inputs, classes, _ = data()
    callback, failing = BurstCallback(plan_of(places(model, "all"))), Failing()
    with pytest.raises(RuntimeError, match="stopped"):
        model.fit(inputs, classes, batch_size=BATCH, verbose=0, callbacks=[failing, callback])
    wait_until(lambda: model.train_function is failing.stock)
    assert "_run_through_graph" not in vars(model)
    model.fit(inputs, classes, batch_size=BATCH, verbose=0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"steps_per_execution": 2}, "steps_per_execution=1"),
        ({"run_eagerly": True}, "run_eagerly=False"),
    ],
)
def test_a_step_that_is_none_is_refused(options: dict[str, Any], said: str) -> None:
    model = dense()
    model.compile("sgd", "mse")
    for name, value in options.items():
        setattr(model, name, value)
    callback = BurstCallback(plan_of(places(model, "all")))
    with pytest.raises(TfwaveError, match=said):
        model.fit(np.ones((BATCH, 4)), np.ones((BATCH, 3)), verbose=0, callbacks=[callback])


class Inferring(keras.Model):
    def train_step(self, data: Any) -> Any:
        return {"most": tf.reduce_max(self(data[0], training=False))}


def test_a_step_of_a_users_own_that_does_not_call_the_model_is_refused() -> None:
    given = keras.Input((4,))
    model = Inferring(given, L.Dense(3)(given))
    model.compile("sgd", "mse")
    callback = BurstCallback(plan_of(places(model, "all")))
    with pytest.raises(TfwaveError, match=r"does not call the model.*self\(x, training=True\)"):
        model.fit(np.ones((BATCH, 4)), np.ones((BATCH, 3)), verbose=0, callbacks=[callback])


def test_a_plan_for_another_batch_is_refused() -> None:
    model = compiled()
    callback = BurstCallback(plan_of(places(model, "all"), batch=16))
    with pytest.raises(PlanError, match=r"for a batch of 16, and the first has 8 .*batch_size=16"):
        model.fit(*data()[:2], batch_size=BATCH, verbose=0, callbacks=[callback])
