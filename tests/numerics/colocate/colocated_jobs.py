"""Jobs for a limited pool of this process; each can also be trained alone."""

import os

import tfwave.colocate as colocation

os.environ["TF_NUM_INTRAOP_THREADS"] = "1"  # jobs that keep all cores busy would be run in turn
POOL = "128MiB"
colocation.limit_memory(POOL)

from collections.abc import Sequence  # noqa: E402
from typing import Any  # noqa: E402

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

v1 = tf.compat.v1
WIDTH, BATCH, LAYERS = 256, 1024, 6


def weights(seed: int) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    return [generator.standard_normal((WIDTH, WIDTH), np.float32) * 0.05 for _ in range(LAYERS)]


def batches(seed: int, count: int, rows: int = BATCH) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    return [generator.standard_normal((rows, WIDTH), np.float32) for _ in range(count)]


class Trained:
    """A `tf.function` with a nested function, a branch and a loop in it."""

    def __init__(self, seed: int) -> None:
        self.variables = [tf.Variable(value) for value in weights(seed)]
        self.step = tf.function(self._step)

    @tf.function
    def _layer(self, hidden: Any, number: int) -> Any:
        return tf.nn.relu(hidden @ self.variables[number])

    def _step(self, batch: Any) -> Any:
        with tf.GradientTape() as tape:
            hidden = batch
            for number in range(LAYERS):
                hidden = self._layer(hidden, number)
            hidden = tf.cond(tf.reduce_sum(hidden) > 0.0, lambda: hidden * 2.0, lambda: tf.tanh(hidden))
            turns = tf.while_loop(lambda i, _: i < 3, lambda i, h: (i + 1, h * 0.9), (0, hidden))
            loss = tf.reduce_mean((turns[1] - batch) ** 2)
        for variable, gradient in zip(self.variables, tape.gradient(loss, self.variables), strict=True):
            variable.assign_sub(0.05 * gradient)
        return loss

    def batch(self, data: np.ndarray) -> Any:
        return data

    def alone(self, data: Sequence[np.ndarray]) -> list[str]:
        return losses([self.step(tf.constant(batch)).numpy() for batch in data])


class Keras:
    """The `train_step` of a model of Keras 3: dropout, and a loss that is averaged over the steps.

    Its AdamW updates at every other step only, and overwrites the weights by their averages at every third: in
    branches that give out nothing.
    """

    def __init__(self, seed: int) -> None:
        keras.utils.set_random_seed(seed)
        layers = keras.layers
        hidden = [layers.Dense(WIDTH, "relu"), layers.Dropout(0.2, seed=seed), layers.Dense(WIDTH, "relu")]
        self.model = keras.Sequential([keras.Input((WIDTH,)), *hidden, layers.Dense(WIDTH)])
        adam = keras.optimizers.AdamW(
            0.001, gradient_accumulation_steps=2, use_ema=True, ema_overwrite_frequency=3
        )
        self.model.compile(adam, "mse")
        self.step = tf.function(self.model.train_step)

    def batch(self, data: np.ndarray) -> Any:
        """`train_step` takes pairs."""
        return ((data, data),)

    def alone(self, data: Sequence[np.ndarray]) -> list[str]:
        fed = [(tf.constant(batch), tf.constant(batch)) for batch in data]
        return losses([tf.nest.map_structure(np.array, self.step(pair)) for pair in fed])


class Session:
    """The like of `Trained` in a session, with momentum."""

    def __init__(self, seed: int) -> None:
        with tf.Graph().as_default() as graph:
            self.fed = v1.placeholder(tf.float32, [BATCH, WIDTH])
            hidden = self.fed
            for number, value in enumerate(weights(seed)):
                hidden = tf.nn.relu(
                    hidden @ v1.get_variable(f"w{number}", initializer=value, use_resource=True)
                )
            self.loss = tf.reduce_mean((hidden - self.fed) ** 2)
            self.train = v1.train.MomentumOptimizer(0.05, 0.9).minimize(self.loss)
            init = v1.global_variables_initializer()
        self.session = v1.Session(graph=graph)
        self.session.run(init)

    @property
    def step(self) -> colocation.SessionStep:
        return colocation.SessionStep(self.session, [self.loss, self.train], [self.fed])

    def batch(self, data: np.ndarray) -> Any:
        return data

    def alone(self, data: Sequence[np.ndarray]) -> list[str]:
        return losses([self.session.run([self.loss, self.train], {self.fed: batch}) for batch in data])


def forget_peak() -> None:
    """From now on `peak` tells of what comes."""
    tf.config.experimental.reset_memory_stats("CPU:0")


def peak() -> int:
    """The most bytes that were in the pool."""
    return tf.config.experimental.get_memory_info("CPU:0")["peak"]


def losses(values: Sequence[Any]) -> list[str]:
    """Bit by bit."""
    return [np.asarray(_loss(value)).tobytes().hex() for value in values]


def _loss(value: Any) -> Any:
    if isinstance(value, dict):
        return value["loss"]
    return value[0] if isinstance(value, list) else value
