"""A training step of a small BERT: embeddings, attention, layer norm, gelu, Adam; two servers."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import tensorflow as tf

from tests.numerics.corpus.function import FunctionSample, function_sample
from tests.numerics.corpus.places import LOCAL

LAYERS, WIDTH, HEADS, VOCABULARY, LENGTH, BATCH = 2, 64, 4, 100, 16, 2
BETA1, BETA2, EPSILON, LEARNING_RATE = 0.9, 0.999, 1e-7, 0.01


class Weights:
    """Variables by name, spread over the servers in turn; each with its two moments beside it."""

    def __init__(self) -> None:
        self._generator = np.random.default_rng(7)
        self.made: dict[str, Any] = {}
        self.moments: dict[str, list[Any]] = {}

    def matrix(self, name: str, *shape: int) -> None:
        self.add(name, self._generator.standard_normal(shape, np.float32) * shape[0] ** -0.5)

    def add(self, name: str, value: Any) -> None:
        with tf.device(LOCAL.servers[len(self.made) % len(LOCAL.servers)]):
            self.made[name] = tf.Variable(value, name=name, dtype=tf.float32)
            zeros = tf.zeros_like(self.made[name])
            self.moments[name] = [tf.Variable(zeros, name=f"{name}/{moment}") for moment in "mv"]

    def norm(self, name: str) -> None:
        self.add(f"{name}/scale", np.ones(WIDTH))
        self.add(f"{name}/offset", np.zeros(WIDTH))


def build(name: str) -> FunctionSample:
    """One step of Adam on `BATCH` sequences of `LENGTH` tokens, each token predicting the next one."""
    weights = _weights()
    variables = list(weights.made.values())
    with tf.device(LOCAL.servers[0]):
        powers = [tf.Variable(beta, name="power") for beta in (BETA1, BETA2)]

    @tf.function(autograph=False)
    def step(tokens):
        with tf.device(LOCAL.worker):
            with tf.GradientTape() as tape:
                loss = _loss(weights.made, tokens)
            gradients = tape.gradient(loss, variables)
        for variable, moments, gradient in zip(variables, weights.moments.values(), gradients, strict=True):
            _apply_adam(variable, moments, powers, tf.convert_to_tensor(gradient))
        for power, beta in zip(powers, (BETA1, BETA2), strict=True):
            power.assign(power * beta)
        return loss

    tokens = np.random.default_rng(8).integers(0, VOCABULARY, (BATCH, LENGTH), np.int32)
    return function_sample(
        name, step, {"tokens": tokens}, [*variables, *chain(*weights.moments.values()), *powers]
    )


def _weights() -> Weights:
    weights = Weights()
    weights.matrix("tokens", VOCABULARY, WIDTH)
    weights.matrix("positions", LENGTH, WIDTH)
    for i in range(LAYERS):
        for part in ("query", "key", "value", "output"):
            weights.matrix(f"layer{i}/{part}", WIDTH, WIDTH)
        weights.matrix(f"layer{i}/up", WIDTH, 4 * WIDTH)
        weights.matrix(f"layer{i}/down", 4 * WIDTH, WIDTH)
        weights.norm(f"layer{i}/attention_norm")
        weights.norm(f"layer{i}/output_norm")
    return weights


def _loss(weights: dict[str, Any], tokens: Any) -> Any:
    hidden = tf.gather(weights["tokens"], tokens) + weights["positions"]
    for i in range(LAYERS):
        hidden = _layer(weights, f"layer{i}", hidden)
    logits = tf.einsum("bld,vd->blv", hidden, weights["tokens"])
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(tokens[:, 1:], logits[:, :-1]))


def _layer(weights: dict[str, Any], name: str, hidden: Any) -> Any:
    query, key, value = (_heads(hidden @ weights[f"{name}/{part}"]) for part in ("query", "key", "value"))
    scores = tf.nn.softmax(tf.matmul(query, key, transpose_b=True) * (WIDTH // HEADS) ** -0.5)
    mixed = tf.reshape(tf.transpose(scores @ value, [0, 2, 1, 3]), [BATCH, LENGTH, WIDTH])
    hidden = _norm(weights, f"{name}/attention_norm", hidden + mixed @ weights[f"{name}/output"])
    wide = tf.nn.gelu(hidden @ weights[f"{name}/up"])
    return _norm(weights, f"{name}/output_norm", hidden + wide @ weights[f"{name}/down"])


def _heads(x: Any) -> Any:
    return tf.transpose(tf.reshape(x, [BATCH, LENGTH, HEADS, WIDTH // HEADS]), [0, 2, 1, 3])


def _norm(weights: dict[str, Any], name: str, x: Any) -> Any:
    mean, variance = tf.nn.moments(x, -1, keepdims=True)
    scale, offset = weights[f"{name}/scale"], weights[f"{name}/offset"]
    return tf.nn.batch_normalization(x, mean, variance, offset, scale, 1e-6)


def _apply_adam(variable: Any, moments: Sequence[Any], powers: Sequence[Any], gradient: Any) -> None:
    with tf.device(variable.device):
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=moments[0].handle,
            v=moments[1].handle,
            beta1_power=powers[0],
            beta2_power=powers[1],
            lr=LEARNING_RATE,
            beta1=BETA1,
            beta2=BETA2,
            epsilon=EPSILON,
            grad=gradient,
        )
