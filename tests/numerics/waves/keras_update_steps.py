"""The steps of `tests.numerics.waves.update_steps`, as Keras 3 and tf_keras build them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import tf_keras

from tests.numerics.waves.keras_waves import in_doubles
from tests.numerics.waves.update_steps import (
    EPSILON,
    HALF,
    OF_WORDS,
    RATE,
    STEPS,
    WIDTH,
    WORDS,
    Values,
    batches,
    joined,
)
from tfwave.runtime.waves.function import WaveFunction
from tfwave.runtime.waves.options import WaveOptions
from tfwave.runtime.waves.state import WaveState
from tfwave.runtime.waves.step import TracedStep, trace_step

Makers = Mapping[str, Callable[[Any], Any]]
LAYERS = ("dense", "normalised", "recurrent", "embedding", "positions")

_OLD: Makers = {
    "descent": lambda given: given.SGD(RATE),
    "momentum": lambda given: given.SGD(RATE, momentum=0.9),
    "nesterov": lambda given: given.SGD(RATE, momentum=0.9, nesterov=True),
    "adam": lambda given: given.Adam(RATE, epsilon=EPSILON),
    "amsgrad": lambda given: given.Adam(RATE, epsilon=EPSILON, amsgrad=True),
    "adamax": lambda given: given.Adamax(RATE, epsilon=EPSILON),
    "nadam": lambda given: given.Nadam(RATE, epsilon=EPSILON),
    "adagrad": lambda given: given.Adagrad(RATE, epsilon=EPSILON),
    "adadelta": lambda given: given.Adadelta(RATE, epsilon=EPSILON),
    "rmsprop": lambda given: given.RMSprop(RATE, momentum=0.5, epsilon=EPSILON),
    "centred rmsprop": lambda given: given.RMSprop(RATE, centered=True, epsilon=EPSILON),
    "ftrl": lambda given: given.Ftrl(RATE, l2_regularization_strength=0.1),
}
_NEWER: Makers = {
    "adamw": lambda given: given.AdamW(RATE, weight_decay=0.1, epsilon=EPSILON),
    "adafactor": lambda given: given.Adafactor(RATE),
    "lion": lambda given: given.Lion(RATE),
    "averaged": lambda given: given.SGD(RATE, use_ema=True, ema_momentum=0.9),
}
_NEWEST: Makers = {
    "lamb": lambda given: given.Lamb(RATE, epsilon=EPSILON),
    "muon": lambda given: given.Muon(RATE),
}


def _of(optimizers: Any, *makers: Makers) -> dict[str, Callable[[], Any]]:
    return {name: partial(make, optimizers) for part in makers for name, make in part.items()}


OPTIMIZERS = {
    "keras": _of(keras.optimizers, _OLD, _NEWER, _NEWEST),
    "tf_keras": _of(tf_keras.optimizers, _OLD, _NEWER),
    "legacy": _of(tf_keras.optimizers.legacy, _OLD),
}
"""By library; the last are tf_keras's of ops of their own."""


@contextmanager
def all_in_doubles() -> Iterator[None]:
    """So are both libraries inside the block."""
    before = tf_keras.backend.floatx()
    tf_keras.backend.set_floatx("float64")
    try:
        with in_doubles():
            yield
    finally:
        tf_keras.backend.set_floatx(before)


def keras_values(library: str, optimizer: str, layer: str) -> tuple[Values, Values]:
    """All variables after some steps in waves, and in large batches."""
    waves, found = _trained(library, optimizer, layer, HALF)
    whole, wanted = _trained(library, optimizer, layer, 2 * HALF)
    function = WaveFunction(waves, WaveOptions(2, "batch"), WaveState())
    for pair in batches(layer):
        function([tuple(map(tf.constant, half)) for half in pair])
        whole(tuple(map(tf.constant, joined(pair))))
    return _numbered(found()), _numbered(wanted())


def _trained(
    library: str, optimizer: str, layer: str, count: int
) -> tuple[TracedStep, Callable[[], list[Any]]]:
    """A step of a new model, and what gives its variables."""
    model, made = _model(keras if library == "keras" else tf_keras, layer), OPTIMIZERS[library][optimizer]()

    def step(inputs: Any, wanted: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(inputs, training=True) - wanted))
        gradients: Any = tape.gradient(loss, model.trainable_variables)
        made.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    width, kind = ([], tf.int64) if layer in OF_WORDS else ([WIDTH], tf.float64)
    specs = tf.TensorSpec([count, STEPS, *width], kind), tf.TensorSpec([count, 2], tf.float64)
    if library != "legacy":
        made.build(model.trainable_variables)
    traced = trace_step(step, specs)
    return traced, lambda: [*model.weights, *(made.variables() if library == "legacy" else made.variables)]


def _model(library: Any, layer: str) -> Any:
    library.utils.set_random_seed(5)
    layers, last = library.layers, library.layers.Dense(2)
    first: Mapping[str, Callable[[], list[Any]]] = {
        "dense": lambda: [layers.Flatten(), layers.Dense(5, "tanh")],
        "normalised": lambda: [
            layers.Conv1D(5, 2, use_bias=False),
            layers.BatchNormalization(),
            layers.Flatten(),
        ],
        "recurrent": lambda: [layers.LSTM(WIDTH)],
        "embedding": lambda: [layers.Embedding(WORDS, WIDTH), layers.Flatten()],
        "positions": lambda: [layers.Embedding(WORDS, WIDTH), _positions(library), layers.Flatten()],
    }
    shape, kind = ((STEPS,), "int64") if layer in OF_WORDS else ((STEPS, WIDTH), "float64")
    return library.Sequential([library.Input(shape, dtype=kind), *first[layer](), last])


def _positions(library: Any) -> Any:
    """Adds rows of a table of its own, which are the same for each batch."""

    class Positions(library.layers.Layer):
        def build(self, shape: Any) -> None:
            self.table = self.add_weight(shape=(2 * STEPS, shape[-1]), name="table")

        def call(self, inputs: Any) -> Any:
            return inputs + tf.gather(tf.convert_to_tensor(self.table), tf.range(STEPS))

    return Positions()


def _numbered(variables: list[Any]) -> Values:
    return {f"{number} {v.name}": np.asarray(v) for number, v in enumerate(variables)}
