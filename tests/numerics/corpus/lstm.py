"""An LSTM's training step: a while loop over time, and the loop that is its gradient."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf

from tests.numerics.corpus.function import FunctionSample, function_sample
from tests.numerics.corpus.places import LOCAL, Places
from tests.numerics.corpus.session import SessionSample, session_sample

v1 = tf.compat.v1
BATCH, LENGTH, WIDTH = 4, 6, 8
LEARNING_RATE = 0.5


def build(name: str) -> FunctionSample:
    """A function whose loops are While nodes, with lists of tensors for what the gradient needs."""
    weights = []
    for i, value in enumerate(_initial()):
        with tf.device(LOCAL.servers[i % len(LOCAL.servers)]):
            weights.append(tf.Variable(value, name=f"weight{i}"))

    @tf.function(autograph=False)
    def step(inputs, wanted):
        with tf.device(LOCAL.worker):
            with tf.GradientTape() as tape:
                loss = _loss(inputs, wanted, weights, LOCAL.worker)
            gradients = tape.gradient(loss, weights)
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.assign_sub(LEARNING_RATE * gradient)
        return loss

    inputs, wanted = _data()
    return function_sample(name, step, {"inputs": inputs, "wanted": wanted}, weights)


def build_v1(name: str, places: Places) -> SessionSample:
    """A session's graph whose loops are of Enter and Merge nodes, and span the worker and a server."""
    graph = tf.Graph()
    with graph.as_default(), control_flow_v1(), tf.device(places.worker):
        inputs, wanted = (v1.placeholder(tf.float32, value.shape) for value in _data())
        weights = []
        for i, value in enumerate(_initial()):
            with tf.device(places.servers[i % len(places.servers)]):
                weights.append(v1.Variable(value, name=f"weight{i}", use_resource=True))
        loss = _loss(inputs, wanted, weights, places.servers[-1])
        train = v1.train.GradientDescentOptimizer(LEARNING_RATE).minimize(loss, name="train")
    feeds = dict(zip((inputs, wanted), _data(), strict=True))
    return session_sample(
        name, places, graph, feeds=feeds, fetches=[loss], targets=[train], variables=weights
    )


@contextmanager
def control_flow_v1() -> Iterator[None]:
    """Build while loops and conditionals as TensorFlow 1 did: without functions."""
    v1.disable_control_flow_v2()
    try:
        yield
    finally:
        v1.enable_control_flow_v2()


def _loss(inputs: Any, wanted: Any, weights: Sequence[Any], state_device: str) -> Any:
    """Mean squared error of all hidden states; the state's update is put on `state_device`."""
    kernel, recurrent, bias = (tf.convert_to_tensor(w) for w in weights)

    def body(time, hidden, carried, outputs):
        gates = inputs[:, time] @ kernel + hidden @ recurrent + bias
        with tf.device(state_device):
            into, forget, candidate, out = tf.split(gates, 4, axis=1)
            carried = tf.sigmoid(forget) * carried + tf.sigmoid(into) * tf.tanh(candidate)
            hidden = tf.sigmoid(out) * tf.tanh(carried)
        return time + 1, hidden, carried, outputs.write(time, hidden)

    zeros = tf.zeros([BATCH, WIDTH])
    # By default a TensorArray moves to the device of what is first written to it, which its gradient does not.
    outputs = tf.TensorArray(
        tf.float32, LENGTH, element_shape=[BATCH, WIDTH], colocate_with_first_write_call=False
    )
    *_, outputs = tf.while_loop(lambda time, *_: time < LENGTH, body, [0, zeros, zeros, outputs])
    return tf.reduce_mean(tf.square(outputs.stack() - wanted))


def _initial() -> list[np.ndarray]:
    generator = np.random.default_rng(7)
    matrices = [generator.standard_normal([WIDTH, 4 * WIDTH], np.float32) * 0.3 for _ in range(2)]
    return [*matrices, np.zeros(4 * WIDTH, np.float32)]


def _data() -> tuple[np.ndarray, np.ndarray]:
    """Inputs [batch, time, width] and the hidden states wanted [time, batch, width]."""
    generator = np.random.default_rng(8)
    inputs = generator.standard_normal([BATCH, LENGTH, WIDTH], np.float32)
    return inputs, generator.uniform(-1, 1, [LENGTH, BATCH, WIDTH]).astype(np.float32)
