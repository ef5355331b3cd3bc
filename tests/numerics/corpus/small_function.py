"""Small functions: calls within calls, and branches that write variables."""

from typing import Any

import numpy as np
import tensorflow as tf

from tests.numerics.corpus.function import FunctionSample, function_sample
from tests.numerics.corpus.places import LOCAL

VALUES = np.linspace(-1, 1, 8, dtype=np.float32)


def build_calls(name: str) -> FunctionSample:
    """A function calls a function that calls another, which reads and writes a variable elsewhere."""
    state, total = _variable("state", LOCAL.servers[0]), _variable("total", LOCAL.servers[1])

    @tf.function(autograph=False)
    def deepest(x):
        state.assign_add(x * 0.25)
        return tf.tanh(state.read_value()), tf.reduce_max(x)

    @tf.function(autograph=False)
    def middle(x):
        with tf.device(LOCAL.servers[1]):
            y, top = deepest(x + total)
        return y * top

    @tf.function(autograph=False)
    def step(values):
        with tf.device(LOCAL.worker):
            loss = tf.reduce_sum(middle(values) + middle(values * 2.0))
        total.assign_add(tf.fill([8], loss))
        return loss

    return function_sample(name, step, {"values": VALUES}, [state, total])


def build_branches(name: str) -> FunctionSample:
    """An If node whose branches write a variable on another device, inside a While node; both are taken."""
    state, total = _variable("state", LOCAL.servers[0]), _variable("total", LOCAL.servers[1])

    def write(sign: float) -> Any:
        with tf.device(LOCAL.servers[1]):
            total.assign_add(tf.sin(total + sign))
        return tf.reduce_sum(total.read_value()) * sign

    def body(i: Any, loss: Any) -> tuple[Any, Any]:
        even = tf.equal(i % 2, 0)
        return i + 1, loss + tf.cond(even, lambda: write(1.0), lambda: write(-0.5))

    @tf.function(autograph=False)
    def step(values):
        with tf.device(LOCAL.worker):
            _, loss = tf.while_loop(lambda i, _: i < 3, body, [0, tf.reduce_sum(values * state)])
        state.assign_add(values * loss)
        return loss

    return function_sample(name, step, {"values": VALUES}, [state, total])


def _variable(name: str, device: str) -> Any:
    with tf.device(device):
        return tf.Variable(np.ones(8, np.float32), name=name)
