"""Narrow training steps in the manner of well-known models, for sessions and for functions: losses of variables."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

BATCH = 8
CLASSES = 10
RATE = 0.05


class Variables:
    """Of a model: those that are trained, and those that it moves itself; each is drawn by its number."""

    def __init__(self) -> None:
        self.trained: list[Any] = []
        self.moved: list[Any] = []

    def weight(self, *shape: int) -> Any:
        fan_in = tf.TensorShape(shape[:-1]).num_elements() or 1
        drawn = tf.random.stateless_normal(shape, seed=(len(self.trained), 3)) * fan_in**-0.5
        return self._add(self.trained, drawn)

    def level(self, size: int, value: float = 0.0) -> Any:
        return self._add(self.trained, tf.fill([size], value))

    def average(self, size: int) -> Any:
        return self._add(self.moved, tf.zeros([size]))

    def _add(self, among: list[Any], first: Any) -> Any:
        variable = tf.compat.v1.Variable(first, use_resource=True, trainable=among is self.trained)
        among.append(variable)
        return variable


Loss = Callable[[], Any]


def images() -> Any:
    return tf.random.stateless_uniform([BATCH, 16, 16, 3], seed=(1, 2))


def classified(features: Any, kernel: Any) -> Any:
    labels = tf.range(features.shape[0]) % CLASSES
    logits = tf.matmul(features, kernel)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))


def resnet(var: Variables) -> Loss:
    """Blocks with batch normalisation, whose averages move, and stateful dropout."""
    layers = [(var.weight(3, 3, 3, 16), *normal(var, 16))]
    layers += [(var.weight(3, 3, 16, 16), *normal(var, 16)) for _ in range(4)]
    kernel = var.weight(16, CLASSES)

    def loss() -> Any:
        x = images()
        for number, (weight, scale, offset, average) in enumerate(layers):
            y, mean, _ = tf.compat.v1.nn.fused_batch_norm(tf.nn.conv2d(x, weight, 1, "SAME"), scale, offset)
            moved = average.assign(0.9 * average + 0.1 * mean)
            with tf.control_dependencies([moved]):
                y = tf.nn.relu(y)
            x = y + x if number else y
        kept = tf.cast(tf.random.uniform(tf.shape(x), seed=5) > 0.1, tf.float32)
        return classified(tf.reduce_mean(x * kept, [1, 2]), kernel)

    return loss


def normal(var: Variables, width: int) -> tuple[Any, Any, Any]:
    return var.level(width, 1.0), var.level(width), var.average(width)


def bert(var: Variables, batch: int = BATCH) -> Loss:
    """An encoder layer with stateless dropout."""
    words, width = 16, 32
    table = var.weight(50, width)
    dense = [(var.weight(width, width), var.level(width)) for _ in range(4)]
    wide = var.weight(width, 4 * width), var.level(4 * width)
    narrow = var.weight(4 * width, width), var.level(width)
    kernel = var.weight(width, CLASSES)

    def norm(x: Any) -> Any:
        mean, variance = tf.nn.moments(x, [-1], keepdims=True)
        return (x - mean) * tf.math.rsqrt(variance + 1e-6)

    def through(x: Any, layer: tuple[Any, Any]) -> Any:
        return tf.nn.bias_add(tf.matmul(x, layer[0]), layer[1])

    def heads(x: Any) -> Any:
        return tf.transpose(tf.reshape(x, [batch, words, 4, width // 4]), [0, 2, 1, 3])

    def loss() -> Any:
        ids = tf.random.stateless_uniform([batch * words], seed=(4, 2), maxval=50, dtype=tf.int32)
        x = tf.gather(table, ids)
        q, k, v = (heads(through(x, layer)) for layer in dense[:3])
        mixed = tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True)), v)
        mixed = tf.reshape(tf.transpose(mixed, [0, 2, 1, 3]), [batch * words, width])
        kept = tf.random.stateless_uniform([batch * words, width], seed=(8, 9)) > 0.1
        x = norm(x + through(mixed, dense[3]) * tf.cast(kept, tf.float32))
        x = norm(x + through(tf.nn.gelu(through(x, wide)), narrow))
        return classified(tf.reduce_mean(tf.reshape(x, [batch, words, width]), 1), kernel)

    return loss


def vgg(var: Variables) -> Loss:
    """Convolutions with biases."""
    shapes = ((3, 8), (8, 8), (8, 16), (16, 16))
    layers = [(var.weight(3, 3, *shape), var.level(shape[1])) for shape in shapes]
    hidden, kernel = var.weight(4 * 4 * 16, 32), var.weight(32, CLASSES)

    def loss() -> Any:
        x = images()
        for number, (weight, offset) in enumerate(layers):
            x = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, weight, 1, "SAME"), offset))
            if number % 2:
                x = tf.nn.max_pool2d(x, 2, 2, "SAME")
        return classified(tf.nn.relu(tf.matmul(tf.reshape(x, [BATCH, -1]), hidden)), kernel)

    return loss


def inception(var: Variables) -> Loss:
    """Blocks of branches that are joined."""

    def block(of: int) -> list[list[Any]]:
        branches = ((1, 1),), ((1, 1), (3, 3)), ((1, 1), (3, 3), (3, 3)), ((1, 1),)
        return [
            [var.weight(*side, 8 if place else of, 8) for place, side in enumerate(branch)]
            for branch in branches
        ]

    blocks, kernel = [block(3), block(32)], var.weight(32, CLASSES)

    def loss() -> Any:
        x = images()
        for branches in blocks:
            starts = [x, x, x, tf.nn.avg_pool2d(x, 3, 1, "SAME")]
            x = tf.concat(
                [convolved(start, *branch) for start, branch in zip(starts, branches, strict=True)], -1
            )
        return classified(tf.reduce_mean(x, [1, 2]), kernel)

    return loss


def unet(var: Variables) -> Loss:
    """Down and up again: what is made on the way down waits for the way up."""
    widths = 8, 16, 16
    down = [var.weight(3, 3, *shape) for shape in zip((3, *widths), widths, strict=False)]
    below = var.weight(3, 3, widths[-1], 16)
    up = [var.weight(3, 3, 16 + width, 16) for width in reversed(widths)]
    kernel = var.weight(16, CLASSES)

    def loss() -> Any:
        x, waiting = images(), list[Any]()
        for weight in down:
            waiting.append(convolved(x, weight))
            x = tf.nn.max_pool2d(waiting[-1], 2, 2, "SAME")
        x = convolved(x, below)
        for weight in up:
            before = waiting.pop()
            x = convolved(tf.concat([before, tf.image.resize(x, before.shape[1:3], "nearest")], -1), weight)
        return classified(tf.reduce_mean(x, [1, 2]), kernel)

    return loss


def convolved(x: Any, *weights: Any) -> Any:
    for weight in weights:
        x = tf.nn.relu(tf.nn.conv2d(x, weight, 1, "SAME"))
    return x


def lstm(var: Variables) -> Loss:
    """Unrolled."""
    words, width = 6, 64
    weight, kernel = var.weight(2 * width, 4 * width), var.weight(width, CLASSES)

    def loss() -> Any:
        inputs = tf.random.stateless_normal([words, BATCH, width], seed=(7, 2))
        state = output = tf.zeros([BATCH, width])
        for word in tf.unstack(inputs):
            i, f, o, g = tf.split(tf.matmul(tf.concat([word, output], 1), weight), 4, 1)
            state = tf.sigmoid(f) * state + tf.sigmoid(i) * tf.tanh(g)
            output = tf.sigmoid(o) * tf.tanh(state)
        return classified(output, kernel)

    return loss


def sliced(var: Variables) -> Loss:
    """Gates whose three inputs lie in one tensor, of which none takes a copy."""
    rows, width = 1024, 32
    ways: tuple[Callable[[Any], Any], ...] = (
        lambda qkv: (qkv[0], qkv[1], qkv[2]),
        tf.unstack,
        lambda qkv: [tf.squeeze(part, 0) for part in tf.split(qkv, 3)],
    )
    weights, kernel = [var.weight(3, width, width) for _ in ways], var.weight(width, CLASSES)

    def loss() -> Any:
        x = tf.random.stateless_normal([rows, width], seed=(5, 2))
        for weight, parts in zip(weights, ways, strict=True):
            q, k, v = parts(tf.matmul(x, weight))
            x = tf.tanh(x + tf.sigmoid(q * k) * v)
        return classified(x, kernel)

    return loss


def large(var: Variables) -> Loss:
    """Of which one tensor is little, and no op needs much scratch: a pool is full only when that is held."""
    return bert(var, 64 * BATCH)


MODELS: dict[str, Callable[[Variables], Loss]] = {
    "resnet": resnet,
    "bert": bert,
    "vgg": vgg,
    "inception": inception,
    "unet": unet,
    "lstm": lstm,
    "sliced": sliced,
}
