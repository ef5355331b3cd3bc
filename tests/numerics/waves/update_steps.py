"""Training steps of every optimizer and kind of layer, in two waves of a batch each and in one large batch."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from grappler_passes.tick_tock import TickTock
from tests.numerics.corpus.sample import Array
from tests.numerics.training_graphs import Training, closed
from tests.numerics.waves.waves import run_waves
from tests.rewrites import graph_bytes

v1 = tf.compat.v1
HALF, STEPS, WORDS, WIDTH = 6, 3, 24, 4
RATE, EPSILON = 1 / 32, 1e-2
"""An epsilon so large that no optimizer divides rounding errors by rounding errors."""
PROXIMAL = np.array([RATE, 1e-3, 0.1])
"""A rate and penalties, which TensorFlow does not cast to the type of a weight."""

OF_WORDS = ("embedding", "positions", "dense rows", "tied", "unique words")
"""The layers that look up rows of a table."""

Values = dict[str, Array]
Batch = tuple[Array, Array]
Steps = Sequence[tuple[Batch, Batch]]


def batches(layer: str, steps: int = 2) -> Steps:
    """For each step two batches of other targets; if normalised, of the same inputs, and so of the same moments."""
    draw = np.random.default_rng(3)
    found: list[tuple[Batch, Batch]] = []
    for _ in range(steps):
        if layer in OF_WORDS:
            inputs = [draw.integers(0, WORDS, [HALF, STEPS]) for _ in range(2)]
        else:
            inputs = [draw.standard_normal([HALF, STEPS, WIDTH]) for _ in range(2)]
        if layer == "normalised":
            inputs[1] = inputs[0]
        wanted = [draw.standard_normal([HALF, _outputs(layer)]) for _ in range(2)]
        found.append(((inputs[0], wanted[0]), (inputs[1], wanted[1])))
    return found


def joined(pair: tuple[Batch, Batch]) -> Batch:
    (inputs, wanted), (others, more) = pair
    return np.concatenate([inputs, others]), np.concatenate([wanted, more])


def _proximal_adagrad() -> Any:
    rate, *penalties = map(tf.constant, PROXIMAL)
    return v1.train.ProximalAdagradOptimizer(rate, 0.1, *penalties)


OPTIMIZERS: Mapping[str, Callable[[], Any]] = {
    "descent": lambda: v1.train.GradientDescentOptimizer(RATE),
    "momentum": lambda: v1.train.MomentumOptimizer(RATE, 0.9),
    "nesterov": lambda: v1.train.MomentumOptimizer(RATE, 0.9, use_nesterov=True),
    "adam": lambda: v1.train.AdamOptimizer(RATE, epsilon=EPSILON),
    "adagrad": lambda: v1.train.AdagradOptimizer(RATE),
    "dual averaging": lambda: v1.train.AdagradDAOptimizer(RATE, v1.train.get_or_create_global_step()),
    "adadelta": lambda: v1.train.AdadeltaOptimizer(RATE, epsilon=EPSILON),
    "rmsprop": lambda: v1.train.RMSPropOptimizer(RATE, momentum=0.5, epsilon=EPSILON),
    "centred rmsprop": lambda: v1.train.RMSPropOptimizer(RATE, centered=True, epsilon=EPSILON),
    "ftrl": lambda: v1.train.FtrlOptimizer(RATE, l2_regularization_strength=0.1),
    "proximal": lambda: v1.train.ProximalGradientDescentOptimizer(*map(tf.constant, PROXIMAL)),
    "proximal adagrad": _proximal_adagrad,
}
"""Those of TensorFlow 1."""
LAYERS = ("dense", "normalised", "recurrent", "embedding", "dense rows", "tied", "unique words", "by hand")


@dataclass
class _Grower:
    """Builds one model of TensorFlow 1; `statistics` are updated beside the weights."""

    layer: str
    statistics: list[Any]

    def weight(self, name: str, *shape: int, trainable: bool = True) -> Any:
        draw = np.random.default_rng([ord(letter) for letter in name])
        first = draw.standard_normal(shape) * 0.5
        return v1.get_variable(name, initializer=first, use_resource=True, trainable=trainable)

    def features(self, inputs: Any) -> Any:
        return {
            "dense": self._dense,
            "by hand": self._dense,
            "normalised": self._normalised,
            "recurrent": self._recurrent,
        }.get(self.layer, self._rows)(inputs)

    def outputs(self, features: Any) -> Any:
        if self.layer == "tied":
            return tf.tanh(features @ self.weight("mixed", WIDTH, WIDTH)) @ tf.transpose(self.table)
        return features @ self.weight("last", features.shape[-1], 2) + self.weight("bias", 2)

    def _dense(self, inputs: Any) -> Any:
        flat = tf.reshape(inputs, [-1, STEPS * WIDTH])
        return tf.tanh(flat @ self.weight("first", STEPS * WIDTH, 5))

    def _normalised(self, inputs: Any) -> Any:
        convolved = tf.nn.conv1d(inputs, self.weight("kernel", 2, WIDTH, 5), 1, "VALID")
        mean, variance = tf.nn.moments(convolved, [0, 1])
        for name, now in (("mean", mean), ("variance", variance)):
            moving = self.weight(f"moving_{name}", 5, trainable=False)
            self.statistics.append(moving.assign_sub((moving - now) * 0.1, read_value=False))
        scaled = tf.nn.batch_normalization(
            convolved, mean, variance, self.weight("beta", 5), self.weight("gamma", 5), 1e-3
        )
        return tf.reduce_mean(tf.tanh(scaled), 1)

    def _recurrent(self, inputs: Any) -> Any:
        kernel, begin = self.weight("cell", 2 * WIDTH, WIDTH).read_value(), tf.zeros_like(inputs[:, 0])
        return tf.while_loop(
            lambda step, state: step < STEPS,
            lambda step, state: (step + 1, tf.tanh(tf.concat([inputs[:, step], state], 1) @ kernel)),
            (0, begin),
        )[1]

    @cached_property
    def table(self) -> Any:
        return self.weight("table", WORDS, WIDTH)

    def _rows(self, inputs: Any) -> Any:
        if self.layer != "unique words":
            return tf.reduce_mean(tf.nn.embedding_lookup(self.table, inputs), 1)
        words, back = tf.unique(tf.reshape(inputs, [-1]))
        rows = tf.gather(tf.nn.embedding_lookup(self.table, words), back)
        return tf.reduce_mean(tf.reshape(rows, [-1, STEPS, WIDTH]), 1)


def v1_step(optimizer: str, layer: str, count: int) -> Training:
    """A step of TensorFlow 1; by hand is one in which no op of an optimizer updates the last weight."""
    kind, shape = (tf.int64, []) if layer in OF_WORDS else (tf.float64, [WIDTH])
    with tf.Graph().as_default() as graph:
        inputs = v1.placeholder(kind, [count, STEPS, *shape], name="inputs")
        wanted = v1.placeholder(tf.float64, [count, _outputs(layer)], name="wanted")
        grower = _Grower(layer, [])
        outputs = grower.outputs(grower.features(inputs))
        loss = tf.reduce_mean(tf.square(outputs - wanted), name="loss")
        weights = v1.trainable_variables()
        gradients = tf.gradients(loss, weights)
        if layer == "dense rows":
            gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        updates = list(grower.statistics)
        if layer == "by hand":
            updates.append(weights.pop().assign_sub(RATE * gradients.pop(), read_value=False))
        pairs = zip(gradients, weights, strict=True)
        updates.append(OPTIMIZERS[optimizer]().apply_gradients(pairs, v1.train.get_or_create_global_step()))
        return closed(graph, [inputs.name, wanted.name], [loss], tf.group(*updates))


def _outputs(layer: str) -> int:
    return WORDS if layer == "tied" else 2


def v1_values(optimizer: str, layer: str) -> tuple[Values, Values]:
    """All variables after some steps in waves, and in large batches."""
    waves, whole = v1_step(optimizer, layer, HALF), v1_step(optimizer, layer, 2 * HALF)
    graph = graph_bytes(TickTock(2, "batch")(waves.item).item)
    steps = batches(layer)
    calls = [[dict(zip(waves.feeds, half, strict=True)) for half in pair] for pair in steps]
    large = [[dict(zip(whole.feeds, joined(pair), strict=True))] for pair in steps]
    *_, (found, _) = run_waves(waves, graph, calls, grappler=False)
    *_, (wanted, _) = run_waves(whole, whole.graph, large, grappler=False)
    return found[0].variables, wanted[0].variables
