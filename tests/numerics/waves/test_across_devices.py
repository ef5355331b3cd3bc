"""A step whose weights lie on several devices trains in waves as on one large batch, each pass where it belongs."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.numerics.replicas import mirrored
from tests.numerics.waves.keras_waves import in_doubles
from tfwave.distribute import across_devices
from tfwave.errors import EnforcerError, PassError
from tfwave.runtime.live.partitions import partition_graphs
from tfwave.runtime.waves.behind import gradients_noted

pytestmark = pytest.mark.tensorflow


class Job:
    """A model on two devices, of which the second is visited first; what is between them says no device."""

    def __init__(self, front: str = "CPU:1", back: str = "CPU:0", *, names_devices: bool = True) -> None:
        draw = np.random.default_rng(2)
        with tf.device(front):
            self.front: Any = tf.Variable(tf.constant(draw.standard_normal((4, 5))))
        with tf.device(back):
            self.back: Any = tf.Variable(tf.constant(draw.standard_normal((5, 2))))
        self.places = (front, back) if names_devices else (None, None)
        with in_doubles():
            self.optimizer: Any = keras.optimizers.Adam(0.01)
            self.optimizer.build(self.weights)

    @property
    def weights(self) -> list[Any]:
        return [self.front, self.back]

    def step(self, given: Any) -> Any:
        with tf.GradientTape() as tape:
            with tf.device(self.places[0]), tf.name_scope("front"):
                made = tf.nn.relu(given @ self.front)
            with tf.name_scope("between"):
                made = self.between(made)
            with tf.device(self.places[1]), tf.name_scope("back"):
                loss = tf.reduce_mean(tf.square(made @ self.back)) + tf.reduce_mean(made)
        self.optimizer.apply(tape.gradient(loss, self.weights), self.weights)
        return loss

    def between(self, made: Any) -> Any:
        @tf.custom_gradient
        def half(value: Any) -> Any:
            return value / 2, lambda gradient: gradient / 2

        return half(tf.function(tf.tanh)(made))

    @property
    def state(self) -> list[Any]:
        return [v.numpy() for v in (*self.weights, *self.optimizer.variables)]


def batches(count: int) -> list[Any]:
    draw = np.random.default_rng(9)
    return [tf.constant(draw.standard_normal((3, 4))) for _ in range(count)]


def close(one: Job, other: Job) -> bool:
    return all(np.allclose(v, w, rtol=1e-9, atol=1e-12) for v, w in zip(one.state, other.state, strict=True))


@pytest.mark.parametrize("names_devices", [True, False])
def test_a_call_is_one_large_batch(names_devices: bool) -> None:
    waved, plain = Job(names_devices=names_devices), Job()
    train, large = across_devices(waved.step), tf.function(plain.step)
    given = batches(6)
    for first in range(0, 6, 2):
        losses = train(*given[first : first + 2])
        assert np.allclose(np.mean(losses), large(tf.concat(given[first : first + 2], 0)), rtol=1e-12)
    train(given[0])
    large(given[0])
    train(*given[:2])
    large(tf.concat(given[:2], 0))
    assert close(waved, plain)
    assert {(tuple(v.shape), v.device[-5:]) for v in train.state.further[0]} >= {
        ((4, 5), "CPU:0"),
        ((5, 2), "CPU:1"),
    }


def test_the_backward_pass_runs_where_the_forward_pass_does() -> None:
    """By the partitions that TensorFlow made of the function."""
    job = Job()
    train = across_devices(job.step)
    _, graphs = partition_graphs(lambda: train(*batches(2)))
    found = {
        node.name: node.device[-1]
        for graph in graphs
        for node in graph.node
        if node.op not in ("_Send", "_Recv")
    }
    own = {"front": "1", "between": "1", "back": "0"}
    seen = set[tuple[str, bool, bool]]()
    for name, place in found.items():
        parts = name.split("/")
        scope = next((part for part in parts[:5] if part in own), None)
        if scope is not None and (
            "matmul" in parts[-1].lower() or "Tanh" in parts[-1] or "ReluGrad" in parts[-1]
        ):
            further = parts[0] == "tick_tock"
            assert place == (str(1 - int(own[scope])) if further else own[scope]), name
            seen.add((scope, further, "gradient_tape" in parts))
    assert {(s, w, g) for s in ("front", "back") for w in (False, True) for g in (False, True)} <= seen


def test_a_strategy_of_one_replica_may_run_the_step() -> None:
    strategy, waved, plain = tf.distribute.get_strategy(), Job(), Job()
    replica = tf.function(waved.step)
    train = across_devices(lambda given: strategy.run(replica, args=(given,)), strategy=strategy)
    given = batches(2)
    train(*given)
    tf.function(plain.step)(tf.concat(given, 0))
    assert close(waved, plain)


def test_what_is_no_model_across_devices_is_refused() -> None:
    job = Job("CPU:0", "CPU:0")
    with pytest.raises(PassError, match="all weights are on"):
        across_devices(job.step)(*batches(2))
    with pytest.raises(PassError, match="waves is 3, and 2 partitions take 1 to 2"):
        across_devices(Job().step, waves=3)(*batches(3))
    with pytest.raises(EnforcerError, match="give 2 or more"):
        across_devices(job.step, waves=1)
    with pytest.raises(EnforcerError, match="has 2 replicas, and a model across devices is one"):
        across_devices(job.step, strategy=mirrored("CPU:0", "CPU:1"))


def test_tapes_are_as_they_were() -> None:
    """Also one that recorded while ops were noted."""
    value: Any = tf.Variable(tf.constant(3.0))
    with tf.GradientTape() as tape, gradients_noted() as found:
        squared: Any = value * value
    first: Any = tape.gradient(squared, value)
    assert float(first) == 6.0

    def root(given: Any) -> Any:
        with tf.GradientTape() as inner:
            inner.watch(given)
            made: Any = tf.sqrt(given)
        return inner.gradient(made, given)

    assert float(tf.function(root)(tf.constant(4.0))) == 0.25
    assert not found

    def late(given: Any) -> Any:
        with tf.GradientTape() as outer:
            outer.watch(given)
            with gradients_noted() as noted:
                made: Any = tf.sqrt(given)
        gradient = outer.gradient(made, given)
        assert not noted
        return gradient

    assert float(tf.function(late)(tf.constant(4.0))) == 0.25
