"""Keras 3 models whose layers are given devices train in waves as on one large batch."""

from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.full import each
from tests.numerics.replicas import mirrored
from tfwave.errors import TfwaveError
from tfwave.keras import TickTockCallback

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("doubles")]

EPOCHS = 2
layers, optimizers = keras.layers, keras.optimizers
TWO = {"front": "CPU:1", "back": "CPU:0"}
"""Not in the order of their names, which would be found without any data."""


def inputs(*shape: int) -> Any:
    return np.random.default_rng(3).standard_normal((24, *shape))


def wanted() -> Any:
    return np.random.default_rng(4).standard_normal((24, 2))


def dense() -> Any:
    front = keras.Sequential([layers.Dense(5, "tanh"), layers.LayerNormalization()], name="front")
    return keras.Sequential([front, layers.ReLU(), layers.Dense(2, name="back")])


def of_words() -> Any:
    return keras.Sequential(
        [layers.Embedding(9, 3, name="front"), layers.Flatten(), layers.Dense(2, name="back")]
    )


def convolution() -> Any:
    return keras.Sequential(
        [
            layers.Conv2D(3, 2, name="front"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(2, name="back"),
        ]
    )


def recurrent() -> Any:
    return keras.Sequential(
        [layers.Bidirectional(layers.LSTM(3), name="front"), layers.Dense(2, name="back")]
    )


def branched() -> Any:
    """Made on the devices; what joins both says none."""
    given = keras.Input((4,))
    with tf.device("CPU:1"):
        front = layers.Dense(5, "tanh", name="front")(given)
    with tf.device("CPU:0"):
        middle = layers.Dense(5, "tanh", name="back")(front)
        last = layers.Dense(2, name="last")
        return keras.Model(given, last(middle + front))


CASES: Mapping[str, tuple[Callable[[], Any], Any, Callable[[], Any], Mapping[str, str]]] = {
    "dense": (dense, inputs(4), lambda: optimizers.Adam(0.01), TWO),
    "clipped": (dense, inputs(4), lambda: optimizers.SGD(0.1, momentum=0.9, global_clipnorm=1e3), TWO),
    "added up": (dense, inputs(4), lambda: optimizers.AdamW(0.01, gradient_accumulation_steps=3), TWO),
    "embedding": (of_words, np.abs(inputs(3) * 3).astype("int32") % 9, lambda: optimizers.Adagrad(0.1), TWO),
    "convolution": (convolution, inputs(5, 5, 1), lambda: optimizers.RMSprop(0.01), TWO),
    "recurrent": (recurrent, inputs(4, 2), lambda: optimizers.Nadam(0.01), TWO),
    "branched": (branched, inputs(4), lambda: optimizers.Lion(0.01), {**TWO, "last": "CPU:0"}),
}


def trained(make: Callable[[], Any], given: Any, optimizer: Any, callback: TickTockCallback | None) -> Any:
    keras.utils.set_random_seed(5)
    model, waves = make(), 1 if callback is None else 2
    model.compile(optimizer, "mse", steps_per_execution=waves)
    callbacks = [] if callback is None else [callback]
    model.fit(given, wanted(), 8 // waves, EPOCHS, verbose=0, shuffle=False, callbacks=callbacks)
    return model


def distance(found: Any, other: Any) -> float:
    return float(np.linalg.norm(found - other) / max(np.linalg.norm(other), 1e-9))


@pytest.mark.parametrize("case", each(CASES, ("clipped", "added up", "recurrent", "branched")))
def test_a_call_is_one_large_batch(case: str) -> None:
    make, given, optimizer, devices = CASES[case]
    waved = trained(make, given, optimizer(), TickTockCallback(average="batch", devices=devices))
    plain = trained(make, given, optimizer(), None)
    for one, other in ((waved, plain), (waved.optimizer, plain.optimizer)):
        pairs = zip(one.variables, other.variables, strict=True)
        assert all(distance(v.numpy(), w.numpy()) <= 1e-9 for v, w in pairs if "seed" not in v.path)


def test_variables_lie_on_the_devices_and_further_ones_on_the_others() -> None:
    callback = TickTockCallback(average="batch", devices=TWO)
    model = trained(dense, inputs(4), optimizers.SGD(0.1, momentum=0.9), callback)
    for variable in (*model.trainable_variables, *model.optimizer.variables[2:]):
        assert variable.value.device[-5:] == TWO["front" if "front" in variable.path else "back"]
    found = {(tuple(v.shape), v.device[-5:]) for v in callback.state.further[0]}
    assert {((4, 5), "CPU:0"), ((5, 2), "CPU:1")} <= found
    assert all("call" not in vars(layer) for layer in model.layers)


def test_draws_statistics_and_metrics_are_those_of_waves_on_one_device() -> None:
    def make() -> Any:
        drawn = layers.Dropout(0.5, name="drawn")
        return keras.Sequential(
            [layers.Dense(5, name="front"), layers.BatchNormalization(name="n"), drawn, *last()]
        )

    def last() -> list[Any]:
        return [layers.Dense(2, name="back")]

    given, devices = inputs(4), {**TWO, "n": "CPU:1", "drawn": "CPU:0"}
    waved = trained(make, given, "sgd", TickTockCallback(average="batch", devices=devices))
    plain = trained(make, given, "sgd", TickTockCallback(average="batch"))
    assert all(
        distance(v.numpy(), w.numpy()) <= 1e-12 for v, w in zip(waved.variables, plain.variables, strict=True)
    )
    assert np.allclose(waved.history.history["loss"], plain.history.history["loss"], rtol=1e-12)


def built() -> Any:
    return keras.Sequential([keras.Input((4,)), layers.Dense(5, name="front"), layers.Dense(2, name="back")])


def unnamed() -> Any:
    return keras.Sequential([layers.Dense(5, name="front"), layers.Dense(4), layers.Dense(2, name="back")])


def returning() -> Any:
    return keras.Sequential(
        [layers.Dense(5, name="front"), layers.Dense(4, name="back"), layers.Dense(2, name="x")]
    )


REFUSED: Mapping[str, tuple[Callable[[], Any], Mapping[str, str], str]] = {
    "elsewhere": (built, TWO, r"'sequential.*/front/kernel' lies on .*CPU:0, .* is given .*CPU:1: make"),
    "unnamed": (unnamed, TWO, "no device is given for 'sequential.*/dense.*/kernel'"),
    "unknown": (unnamed, {**TWO, "middle": "CPU:0"}, "has 0 layers 'middle'"),
    "back": (returning, {**TWO, "x": "CPU:1"}, "which the forward pass has left"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_models_that_cannot_are_refused(case: str) -> None:
    make, devices, message = REFUSED[case]
    with pytest.raises(TfwaveError, match=message):
        trained(make, inputs(4), "sgd", TickTockCallback(average="batch", devices=devices))


def test_replicas_are_refused() -> None:
    with mirrored("CPU:0").scope():
        model: Any = dense()
        model.compile("sgd", "mse", steps_per_execution=2)
    with pytest.raises(TfwaveError, match="its layers are given devices: make it outside of strategies"):
        model.fit(inputs(4), wanted(), 4, callbacks=[TickTockCallback(average="batch", devices=TWO)])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"average": "wave"}, "average='batch'"),
        ({"offset": 0.5}, "without an offset"),
        ({"waves": "auto"}, "give their number"),
        ({"waves": 3}, "there are 3 waves, and 2 devices"),
        ({"waves": 2.5}, "there are 2.5 waves, and 2 devices"),
        ({"waves": 1}, "give 2 to as many"),
        ({"devices": {"front": "CPU:0", "back": "/device:CPU:0"}}, "are given one device"),
        ({"devices": {"front": "CPU:0", "back": "TPU:9"}}, "there is no device 'TPU:9'"),
    ],
)
def test_options_that_waves_across_devices_do_not_take(options: Any, message: str) -> None:
    with pytest.raises(TfwaveError, match=message):
        TickTockCallback(**{"average": "batch", "devices": TWO, **options})
