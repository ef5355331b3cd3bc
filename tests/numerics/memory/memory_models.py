"""Small training steps in the manner of well-known models, as TensorFlow 1 builds them."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
CLASSES = 10
VOCABULARY = 1000


@dataclass(frozen=True)
class Model:
    """What a step runs, and what it is fed."""

    fetches: list[Any]
    feeds: dict[Any, np.ndarray]


_Loss = Callable[["_Variables", int], tuple[Any, dict[Any, np.ndarray]]]
"""What is trained on a batch of so many, and what is fed."""


class _Variables:
    def __init__(self) -> None:
        self._numbers = count()

    def __call__(self, *shape: int, value: float | None = None) -> Any:
        """A variable: small random numbers, or all alike."""
        number = next(self._numbers)
        if value is None:
            start: Any = v1.initializers.random_normal(stddev=0.05, seed=number)
        else:
            start = v1.initializers.constant(value)
        return v1.get_variable(f"w{number}", shape, initializer=start, use_resource=True)


def build(name: str, batches: int) -> Model:
    """A model in the default graph, for so many times its usual batch."""
    loss_of, batch, optimizer = _MODELS[name]
    loss, feeds = loss_of(_Variables(), batch * batches)
    return Model([loss, optimizer().minimize(loss)], feeds)


def _images(batch: int, side: int, channels: int) -> Any:
    return tf.random.stateless_uniform([batch, side, side, channels], seed=[1, 2])


def _classified(features: Any, width: int, var: _Variables) -> Any:
    logits = tf.matmul(tf.reduce_mean(features, [1, 2]), var(width, CLASSES))
    labels = tf.range(features.shape[0]) % CLASSES
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))


def _normal(x: Any, var: _Variables) -> Any:
    width = x.shape[-1]
    return v1.nn.fused_batch_norm(x, var(width, value=1.0), var(width, value=0.0))[0]


def _conv(x: Any, width: int, var: _Variables, *, stride: int = 1, side: int = 3) -> Any:
    return tf.nn.conv2d(x, var(side, side, x.shape[-1], width), stride, "SAME")


def _resnet(var: _Variables, batch: int) -> tuple[Any, dict[Any, np.ndarray]]:
    x = tf.nn.relu(_normal(_conv(_images(batch, 48, 3), 16, var), var))
    for width, stride in ((16, 1), (16, 1), (32, 2), (32, 1), (64, 2), (64, 1)):
        y = tf.nn.relu(_normal(_conv(x, width, var, stride=stride), var))
        y = _normal(_conv(y, width, var), var)
        short = x if x.shape[-1] == width else _conv(x, width, var, stride=stride, side=1)
        x = tf.nn.relu(y + short)
    return _classified(x, 64, var), {}


def _bert(var: _Variables, batch: int) -> tuple[Any, dict[Any, np.ndarray]]:
    words, width, heads = 96, 128, 4

    def dense(x: Any, to: int) -> Any:
        return tf.nn.bias_add(tf.matmul(x, var(x.shape[-1], to)), var(to, value=0.0))

    def norm(x: Any) -> Any:
        mean, variance = tf.nn.moments(x, -1, keepdims=True)
        return (x - mean) * tf.math.rsqrt(variance + 1e-6) * var(width, value=1.0) + var(width, value=0.0)

    def split(x: Any) -> Any:
        return tf.transpose(tf.reshape(x, [batch, words, heads, width // heads]), [0, 2, 1, 3])

    ids = v1.placeholder(tf.int32, [batch, words])
    x = tf.reshape(tf.gather(var(VOCABULARY, width), ids), [batch * words, width])
    for _ in range(3):
        q, k, v = (split(dense(x, width)) for _ in range(3))
        weights = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) * (width // heads) ** -0.5)
        mixed = tf.reshape(tf.transpose(tf.matmul(weights, v), [0, 2, 1, 3]), [batch * words, width])
        x = norm(x + dense(mixed, width))
        x = norm(x + dense(tf.nn.gelu(dense(x, 4 * width)), width))
    fed = np.arange(batch * words, dtype=np.int32).reshape(batch, words) % VOCABULARY
    return tf.reduce_mean(tf.square(x - 1.0)), {ids: fed}


def _lstm(var: _Variables, batch: int) -> tuple[Any, dict[Any, np.ndarray]]:
    """A loop, whose backward pass takes from lists what the forward pass has put there."""
    steps, width = 40, 128
    x = tf.random.stateless_normal([steps, batch, width], seed=[3, 4])
    kernel, bias = var(2 * width, 4 * width), var(4 * width, value=0.0)

    def cell(t: Any, h: Any, c: Any) -> Any:
        gates = tf.nn.bias_add(tf.matmul(tf.concat([x[t], h], 1), kernel), bias)
        i, j, f, o = tf.split(gates, 4, 1)
        c = c * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
        return t + 1, tf.tanh(c) * tf.sigmoid(o), c

    zero = tf.zeros([batch, width])
    _, h, _ = tf.while_loop(lambda t, h, c: t < steps, cell, [0, zero, zero], maximum_iterations=steps)
    return tf.reduce_mean(tf.square(h - 0.5)), {}


def _nasnet(var: _Variables, batch: int) -> tuple[Any, dict[Any, np.ndarray]]:
    def separable(x: Any, width: int, side: int) -> Any:
        depth, point = var(side, side, x.shape[-1], 1), var(1, 1, x.shape[-1], width)
        return _normal(tf.nn.separable_conv2d(tf.nn.relu(x), depth, point, [1, 1, 1, 1], "SAME"), var)

    def cell(x: Any, before: Any, width: int) -> Any:
        x, before = _conv(x, width, var, side=1), _conv(before, width, var, side=1)
        branches = [
            separable(x, width, 3) + x,
            separable(before, width, 3) + separable(x, width, 5),
            tf.nn.avg_pool2d(x, 3, 1, "SAME") + before,
            separable(before, width, 5) + separable(before, width, 3),
        ]
        return tf.concat(branches, -1)

    x = before = _normal(_conv(_images(batch, 48, 3), 16, var, stride=2), var)
    for width in (16, 16, 24):
        x, before = cell(x, before, width), x
    return _classified(tf.nn.relu(x), 96, var), {}


def _vgg(var: _Variables, batch: int) -> tuple[Any, dict[Any, np.ndarray]]:
    x = _images(batch, 32, 3)
    for width, depth in ((16, 2), (32, 2), (64, 3)):
        for _ in range(depth):
            x = tf.nn.relu(tf.nn.bias_add(_conv(x, width, var), var(width, value=0.0)))
        x = tf.nn.max_pool2d(x, 2, 2, "SAME")
    x = tf.nn.relu(tf.matmul(tf.reshape(x, [batch, -1]), var(4 * 4 * 64, 256)))
    return _classified(tf.reshape(x, [batch, 1, 1, 256]), 256, var), {}


def _mixer(var: _Variables, batch: int) -> tuple[Any, dict[Any, np.ndarray]]:
    def mlp(x: Any, hidden: int) -> Any:
        width = x.shape[-1]
        y = tf.nn.gelu(tf.einsum("abi,io->abo", x, var(width, hidden)))
        return tf.einsum("abi,io->abo", y, var(hidden, width))

    x = tf.reshape(_conv(_images(batch, 64, 3), 96, var, stride=8, side=8), [batch, 64, 96])
    for _ in range(4):
        x += tf.transpose(mlp(tf.transpose(x, [0, 2, 1]), 48), [0, 2, 1])
        x += mlp(x, 256)
    return _classified(tf.reshape(x, [batch, 8, 8, 96]), 96, var), {}


def _gru(var: _Variables, batch: int) -> tuple[Any, dict[Any, np.ndarray]]:
    """Its steps are written out; the batch is fed."""
    steps, width = 24, 96
    fed = v1.placeholder(tf.float32, [batch, steps, width])
    gates, candidate = var(2 * width, 2 * width), var(2 * width, width)
    h = tf.zeros([batch, width])
    for x in tf.unstack(fed, axis=1):
        r, z = tf.split(tf.sigmoid(tf.matmul(tf.concat([x, h], 1), gates)), 2, 1)
        h = z * h + (1 - z) * tf.tanh(tf.matmul(tf.concat([x, r * h], 1), candidate))
    return tf.reduce_mean(tf.square(h - 0.5)), {fed: np.ones([batch, steps, width], np.float32)}


_MODELS: dict[str, tuple[_Loss, int, Callable[[], Any]]] = {
    "resnet": (_resnet, 16, lambda: v1.train.MomentumOptimizer(0.01, 0.9)),
    "bert": (_bert, 8, lambda: v1.train.AdamOptimizer(0.001)),
    "lstm": (_lstm, 64, lambda: v1.train.GradientDescentOptimizer(0.1)),
    "nasnet": (_nasnet, 8, lambda: v1.train.RMSPropOptimizer(0.001)),
    "vgg": (_vgg, 32, lambda: v1.train.MomentumOptimizer(0.01, 0.9)),
    "mixer": (_mixer, 16, lambda: v1.train.AdamOptimizer(0.001)),
    "gru": (_gru, 64, lambda: v1.train.AdagradOptimizer(0.1)),
}
NAMES = tuple(_MODELS)
