"""A dense model whose layers lie on devices of their own, as TensorFlow trains it, and as NumPy does."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tests.numerics.corpus.sample import Array
from tests.numerics.training_graphs import Training, closed
from tests.numerics.waves.waves import BATCH, OPTIMIZERS, Values

v1 = tf.compat.v1
WIDTH = 6
SCALE = 0.75
"""Of the activations of each layer, where the model has a variable for it that nothing changes."""


def first_values(count: int) -> Values:
    draw = np.random.default_rng(5)
    values: Values = {}
    for p in range(count):
        values[f"w{p}"] = draw.standard_normal([WIDTH, WIDTH]) * 0.4
        values[f"b{p}"] = draw.standard_normal([WIDTH]) * 0.1
    return values


def batches(count: int) -> list[tuple[Array, Array]]:
    draw = np.random.default_rng(13)
    return [
        (draw.standard_normal([BATCH, WIDTH]), draw.standard_normal([BATCH, WIDTH])) for _ in range(count)
    ]


def gradient_of(values: Values, inputs: Array, wanted: Array, scale: float = 1.0) -> Values:
    """Of the mean square of the error of layers of scale * tanh(x w + b), by hand."""
    count = len(values) // 2
    taken, given = [inputs], list[Array]()
    for p in range(count):
        given.append(np.tanh(taken[p] @ values[f"w{p}"] + values[f"b{p}"]))
        taken.append(scale * given[p])
    error = 2 * (taken[-1] - wanted) / wanted.size
    found: Values = {}
    for p in reversed(range(count)):
        inner = scale * error * (1 - given[p] ** 2)
        found |= {f"w{p}": taken[p].T @ inner, f"b{p}": inner.sum(0)}
        error = inner @ values[f"w{p}"].T
    return {name: found[name] for name in values}


def partitioned(optimizer: str, count: int, *, scaled: bool = False) -> Training:
    """The training step in TensorFlow, in double precision; layer p is on CPU p, ops are named ``layer<p>/...``."""
    with tf.Graph().as_default() as graph:
        inputs = v1.placeholder(tf.float64, [BATCH, WIDTH], name="inputs")
        wanted = v1.placeholder(tf.float64, [BATCH, WIDTH], name="wanted")
        weights: list[Any] = []
        made = inputs
        for p in range(count):
            with tf.device(f"/device:CPU:{p}"):
                made = _layer(p, made, weights, scaled=scaled)
        with tf.device(f"/device:CPU:{count - 1}"):
            loss = tf.reduce_mean(tf.square(made - wanted), name="loss")
        gradients = v1.gradients(loss, weights, colocate_gradients_with_ops=True)
        train = OPTIMIZERS[optimizer][1](list(zip(gradients, weights, strict=True)))
        return closed(graph, [inputs.name, wanted.name], [loss], train)


def _layer(p: int, made: Any, weights: list[Any], *, scaled: bool) -> Any:
    values = first_values(p + 1)
    w, b = (v1.get_variable(f"{n}{p}", initializer=values[f"{n}{p}"], use_resource=True) for n in "wb")
    weights += [w, b]
    scale = v1.get_variable(f"s{p}", initializer=np.float64(SCALE), use_resource=True, trainable=False)
    with tf.name_scope(f"layer{p}"):
        made = tf.tanh(made @ w + b)
        return made * scale if scaled else made


def fed(training: Training, given: Sequence[tuple[Array, Array]]) -> list[dict[str, Array]]:
    """What the placeholders take."""
    return [dict(zip(training.feeds, batch, strict=True)) for batch in given]
