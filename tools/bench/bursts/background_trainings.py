"""Three trainings: one that keeps the cores busy, the same with waits in each step, and one that uses one core."""

import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

KINDS = ("busy", "gaps", "serial")
GAP_SECONDS = 0.008
BATCH = 16
"""Of the convolutions, if nothing says otherwise."""


def training(kind: str) -> Callable[[], object]:
    """A step of it, with its waits."""
    step = function(kind)

    def made() -> object:
        time.sleep(GAP_SECONDS if kind == "gaps" else 0)
        return step().numpy()

    return made


def function(kind: str, batch: int = BATCH) -> Any:
    """The `tf.function` of a step, without waits; `batch` is that of convolutions."""
    tf: Any = import_module("tensorflow")
    if kind == "serial":
        forward, shapes = recurrent, [[192, 128]]
    else:
        shapes = [[3, 3, 24 if layer else 3, 24] for layer in range(6)]
        forward = partial(convolved, batch=batch)
    weights = [
        tf.Variable(0.1 * tf.random.stateless_normal(shape, [1, seed])) for seed, shape in enumerate(shapes)
    ]

    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(forward(tf, weights) ** 2)
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(1e-3 * gradient)
        return loss

    return step


def in_session(make: Callable[..., Any]) -> tuple[Any, list[Any]]:
    """A session that `make` makes of a graph, its variables initialised, and what trains convolutions in it."""
    tf: Any = import_module("tensorflow")
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        weights = [
            v1.get_variable(f"w{layer}", [3, 3, 24 if layer else 3, 24], use_resource=True)
            for layer in range(6)
        ]
        loss = tf.reduce_mean(convolved(tf, weights) ** 2)
        train = v1.train.GradientDescentOptimizer(1e-3).minimize(loss)
        initialize = v1.global_variables_initializer()
    session = make(graph)
    session.run(initialize)
    return session, [loss, train]


def recurrent(tf: Any, weights: list[Any]) -> Any:
    """Small products, each of which waits for the one before."""
    hidden = tf.zeros([8, 128])
    for word in tf.unstack(tf.random.stateless_normal([24, 8, 64], [2, 0])):
        for _ in range(3):
            hidden = tf.tanh(tf.concat([word, hidden], 1) @ weights[0])
    return hidden


def convolved(tf: Any, weights: list[Any], batch: int = BATCH) -> Any:
    """Convolutions of small pictures."""
    hidden = tf.random.stateless_normal([batch, 32, 32, 3], [2, 0])
    for weight in weights:
        hidden = tf.nn.relu(tf.nn.conv2d(hidden, weight, 1, "SAME"))
    return hidden
