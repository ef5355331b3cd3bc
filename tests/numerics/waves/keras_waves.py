"""Keras 3 models to train in waves."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tests.numerics.corpus.sample import Array
from tests.numerics.waves.waves import BETAS, EPSILON, MOMENTUM, RATE, WIDTHS, Values, first_values
from tfwave.keras import TickTockCallback

Batches = Sequence[tuple[Array, Array]]

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: keras.optimizers.SGD(RATE),
    "momentum": lambda: keras.optimizers.SGD(RATE, momentum=MOMENTUM),
    "adam": lambda: keras.optimizers.Adam(RATE, *BETAS, EPSILON),
}
"""By the names of those of `tests.numerics.waves.waves.Replica`."""


@contextmanager
def in_doubles() -> Iterator[None]:
    """Keras makes variables in double precision inside the block, also if it has made layers before."""
    before, policy = keras.config.floatx(), keras.config.dtype_policy()
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    try:
        yield
    finally:
        keras.config.set_floatx(before)
        keras.config.set_dtype_policy(policy)


def dense(optimizer: str, waves: int = 2) -> Any:
    """The model of `tests.numerics.waves.waves`, compiled."""
    model = keras.Sequential(
        [keras.Input((WIDTHS[0],)), keras.layers.Dense(WIDTHS[1], "tanh"), keras.layers.Dense(WIDTHS[2])]
    )
    model.set_weights(list(first_values().values()))
    model.compile(OPTIMIZERS[optimizer](), "mse", metrics=["mae"], steps_per_execution=waves)
    return model


def mixed(waves: int = 2, rate: float = 0.125, dropout: float = 0.5, units: int = 4) -> Any:
    """A recurrent model with batch normalisation and dropout, always the same."""
    keras.utils.set_random_seed(5)
    layers = [
        keras.Input((6, 3)),
        keras.layers.LSTM(units),
        keras.layers.BatchNormalization(),
        keras.layers.Dropout(dropout),
        keras.layers.Dense(2),
    ]
    model = keras.Sequential(layers)
    optimizer = keras.optimizers.SGD(rate, momentum=0.5)
    model.compile(optimizer, "mse", metrics=["mae"], steps_per_execution=waves)
    return model


class Attention(keras.Model):
    """Attention and a convolution, with a loss of a layer's own and a step that users write."""

    def __init__(self) -> None:
        super().__init__()
        self.attention: Any = keras.layers.MultiHeadAttention(2, 3, use_bias=False)
        self.convolution: Any = keras.layers.Conv1D(4, 2)
        self.pooling: Any = keras.layers.GlobalAveragePooling1D()
        self.outer: Any = keras.layers.Dense(2)

    def call(self, inputs: Any, training: Any = None) -> Any:
        found: Any = self.convolution(self.attention(inputs, inputs))
        self.add_loss(0.01 * tf.reduce_mean(tf.square(found)))
        return self.outer(self.pooling(found))

    def train_step(self, data: Any) -> Any:
        inputs, wanted = data
        with tf.GradientTape() as tape:
            given: Any = self(inputs, training=True)
            loss = tf.reduce_mean(tf.square(given - wanted)) + sum(self.losses)
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return {"loss": loss}


def attention() -> Any:
    keras.utils.set_random_seed(5)
    model = Attention()
    model(np.zeros((2, 6, 3)))
    return model


class Around(keras.Model):
    """A model with a step that calls what it is around, and no `call` of its own."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner: Any = inner

    def train_step(self, data: Any) -> Any:
        inputs, wanted = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self.inner(inputs, training=True) - wanted))
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return {"loss": loss}


class Triplets(keras.Model):
    """Batches of three inputs, and no targets, with a step of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.inner: Any = keras.layers.Dense(3)

    @property
    def metrics(self) -> list[Any]:
        return []

    def call(self, inputs: Any) -> Any:
        anchor, near, far = map(self.inner, inputs)
        return tf.square(anchor - near) - tf.square(anchor - far)

    def train_step(self, data: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(self(data))
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return {"loss": loss}


def recurrent() -> Any:
    keras.utils.set_random_seed(5)
    layers = keras.layers
    inputs = keras.Input((6, 3))
    hidden = layers.LayerNormalization()(layers.GRU(4, return_sequences=True)(inputs))
    return keras.Model(inputs, layers.Dense(2)(layers.Bidirectional(layers.LSTM(3))(hidden)))


def sequences(count: int, batch: int = 8) -> Batches:
    draw = np.random.default_rng(3)
    return [(draw.standard_normal((batch, 6, 3)), draw.standard_normal((batch, 2))) for _ in range(count)]


def dataset(batches: Batches) -> Any:
    return tf.data.Dataset.from_tensor_slices(tuple(np.stack(parts) for parts in zip(*batches, strict=True)))


def weights_of(model: Any) -> Values:
    return dict(zip(first_values(), model.get_weights(), strict=True))


def weights_of_wave(callback: TickTockCallback, wave: int) -> Values:
    """Of the dense model in a further wave: a step captures its weights before slots of their shapes."""
    further = callback.state.further[wave - 1]
    return {
        name: next(v.numpy() for v in further if v.shape == value.shape)
        for name, value in first_values().items()
    }


def files_with(directory: Path, text: bytes) -> list[str]:
    files = [path for path in directory.rglob("*") if path.is_file()]
    return [path.name for path in files if text in path.read_bytes() or text.decode() in path.name]
