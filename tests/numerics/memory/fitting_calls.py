"""Steps as programs call and write them, in a pool that has room; prints what came out.

python -m tests.numerics.memory.fitting_calls
"""

import json
import sys
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tfwave.colocate import limit_memory

THREADS = 3


def configure() -> None:
    """What can be set only before TensorFlow starts."""
    threading: Any = import_module("tensorflow").config.threading
    threading.set_inter_op_parallelism_threads(THREADS)


limit_memory("64MiB", configure=configure)

import keras  # noqa: E402
import tensorflow as tf  # noqa: E402

from tfwave import fit_memory  # noqa: E402
from tfwave.errors import TfwaveError  # noqa: E402
from tfwave.keras import FitMemoryCallback  # noqa: E402

WIDTH, ROWS, SAMPLE = 8, 6, 4
MANY, WIDE = 64, 512
"""Of outputs, 128 KiB: TensorFlow computes a constant of that size, and keeps what makes it."""
TRIES = 6


class Function:
    """A step of one weight, as a `tf.function`."""

    def __init__(self, given: Callable[[Any], Any] = tf.identity) -> None:
        self.weight = tf.Variable(tf.ones([WIDTH, WIDTH]))
        self._given = given
        self.step = tf.function(self._step)

    def _step(self, batch: Any, rate: float = 0.5, *, training: bool = True) -> Any:
        with tf.GradientTape() as tape:
            hidden = tf.nn.tanh(self._given(batch) @ self.weight)
            loss = tf.reduce_sum(hidden * hidden)
        if training:
            gradient: Any = tape.gradient(loss, self.weight)
            self.weight.assign_sub(rate * gradient)
        return loss

    def values(self, call: Callable[..., Any], *batch: Any, **named: Any) -> list[str]:
        """What two steps return and leave."""
        losses = [call(*batch, **named).numpy().tobytes() for _ in range(2)]
        return [value.hex() for value in (*losses, self.weight.numpy().tobytes())]


def same(given: Callable[[Any], Any], *batch: Any, **named: Any) -> bool:
    plain, fitted = Function(given), Function(given)
    step = fit_memory(fitted.step, sample_rows=SAMPLE)
    return fitted.values(step, *batch, **named) == plain.values(plain.step, *batch, **named)


def wide(given: Any, weight: Any) -> Any:
    """A step whose gradient begins with a large constant."""
    with tf.GradientTape() as tape:
        made = tf.tanh(given @ weight)
        labels = tf.ones_like(made) * given[:, :1]
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=made)
        loss = tf.reduce_mean(tf.reduce_mean(losses, 1))
    gradient: Any = tape.gradient(loss, weight)
    weight.assign_sub(gradient)
    return loss


def means(fit: Callable[[Any], Any]) -> list[str]:
    """What such a step leaves, several times, as its ops race each other."""
    batch = np.random.default_rng(1).standard_normal((MANY, WIDTH), np.float32)
    weights = [tf.Variable(tf.fill([WIDTH, WIDE], 0.01)) for _ in range(TRIES)]
    for weight in weights:
        fit(tf.function(partial(wide, weight=weight)))(batch)
    return [weight.numpy().tobytes().hex() for weight in weights]


def given_variable(fit: Callable[[Any], Any]) -> str:
    """What a step leaves that is called with what it trains."""
    batch = np.random.default_rng(1).standard_normal((ROWS, WIDTH), np.float32)
    weight = tf.Variable(tf.fill([WIDTH, WIDTH], 0.01))
    fit(tf.function(wide))(batch, weight)
    return weight.numpy().tobytes().hex()


def left_of_two_shapes(batch: np.ndarray) -> list[str]:
    """The plans that are left of as many rows in two shapes."""
    with TemporaryDirectory() as folder:
        step = fit_memory(Function(lambda given: tf.reshape(given, [-1, WIDTH])).step, report_dir=folder)
        for shape in ([ROWS, WIDTH], [ROWS, 2, WIDTH // 2]):
            step(batch.reshape(shape))
        return sorted(path.name for path in Path(folder).glob("*.plan.json"))


def said(call: Callable[[], object]) -> str:
    try:
        call()
    except (TfwaveError, TypeError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def full(_: np.ndarray) -> np.ndarray:
    """TensorFlow makes of it what it makes of a pool that has run out, without the wait of ten seconds."""
    raise MemoryError


def in_full_pool(batch: Any) -> Any:
    return tf.ensure_shape(tf.numpy_function(full, [batch], tf.float32), batch.shape)


class Adversaries(keras.Model):
    """Two models, and a step with a loss for each; of Keras it logs means alone."""

    def __init__(self) -> None:
        super().__init__()
        self.maker: Any = keras.Sequential([keras.Input((WIDTH,)), keras.layers.Dense(WIDTH, "tanh")])
        self.judge: Any = keras.Sequential([keras.Input((WIDTH,)), keras.layers.Dense(1)])
        self.optimizers: Any = [keras.optimizers.Adam(0.1), keras.optimizers.SGD(0.1)]
        self.means: Any = [keras.metrics.Mean("judge"), keras.metrics.Mean("maker")]

    def train_step(self, data: Any) -> Mapping[str, Any]:
        self._learn(self.judge, 0, lambda: self.judge(self.maker(data)) - self.judge(data))
        self._learn(self.maker, 1, lambda: 1 - self.judge(self.maker(data)))
        return {mean.name: mean.result() for mean in self.means}

    def _learn(self, model: Any, number: int, error: Callable[[], Any]) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(error()))
        weights = model.trainable_variables
        self.optimizers[number].apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        self.means[number].update_state(loss)


class Silent(Adversaries):
    """The same, without a word of its losses."""

    def train_step(self, data: Any) -> Mapping[str, Any]:
        super().train_step(data)
        return {"rows": tf.shape(data)[0]}


class InFunction(Adversaries):
    """The same, as some write it."""

    @tf.function
    def train_step(self, data: Any) -> Mapping[str, Any]:
        return super().train_step(data)


def adversaries(kind: type[Adversaries], *callbacks: Any) -> list[Any]:
    keras.utils.set_random_seed(1)
    model: Any = kind()
    model.compile(jit_compile=False)
    inputs = np.random.default_rng(1).standard_normal((2 * ROWS, WIDTH), np.float32)
    history = model.fit(inputs, batch_size=ROWS, epochs=2, verbose=0, callbacks=[*callbacks])
    return [history.history, [value.tobytes().hex() for value in model.get_weights()]]


def unequal(*callbacks: Any) -> list[Any]:
    """Batches of 6, 6 and 4, whose number of samples Keras does not tell a step; a normalisation divides by it."""
    keras.utils.set_random_seed(1)
    layers = keras.layers
    model: Any = keras.Sequential([layers.Dense(WIDTH), layers.BatchNormalization(), layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=False)
    inputs = np.random.default_rng(1).standard_normal((16, WIDTH), np.float32)
    model.fit(inputs, inputs[:, :1], batch_size=ROWS, shuffle=False, verbose=0, callbacks=[*callbacks])
    return [value.tobytes().hex() for value in model.get_weights()]


def main() -> None:
    batch = np.random.default_rng(1).standard_normal((ROWS, WIDTH), np.float32)
    callback = FitMemoryCallback()
    found = {
        "same": {
            "named": same(tf.identity, batch=batch, rate=0.25),
            "empty": same(tf.identity, batch[:0]),
            "sparse": same(tf.sparse.to_dense, tf.sparse.from_dense(batch)),
            "adversaries": adversaries(Adversaries, callback) == adversaries(Adversaries),
            "silent": adversaries(Silent, FitMemoryCallback()) == adversaries(Silent),
            "unequal": unequal(FitMemoryCallback()) == unequal(),
            "means": means(fit_memory) == means(lambda step: step),
            "given variable": given_variable(fit_memory) == given_variable(lambda step: step),
        },
        "threads": tf.config.threading.get_inter_op_parallelism_threads() / THREADS,
        "left": left_of_two_shapes(batch),
        "plans": len(callback.plans),
        "said": {
            "by name alone": said(lambda: fit_memory(Function().step)(batch, training=True)),
            "no such name": said(lambda: fit_memory(Function().step)(batch, speed=1)),
            "full": said(lambda: fit_memory(Function(in_full_pool).step)(batch)),
            "in a function": said(lambda: adversaries(InFunction, FitMemoryCallback())),
        },
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
