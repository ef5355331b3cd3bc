"""Small Keras 3 models, and burst plans of them for three devices or more."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfwave.keras import burst
from tfwave.keras.bursts.nodes import nodes_of
from tfwave.plan.layers import LayerDevices, Layers
from tfwave.plan.plan import Plan

L = keras.layers
BATCH, DEVICES = 8, 3
Place = tuple[int, int]
"""The first device of a layer, and how many it has."""


class Gated(L.Layer):
    """A layer of a user's own, with a layer in it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.gate = L.Dense(6, "sigmoid")

    def build(self, shape: Any) -> None:
        self.gate.build(shape)
        self.scale = self.add_weight(shape=(6,), initializer="ones")

    def call(self, values: Any) -> Any:
        return values * self.gate(values) * self.scale


def vgg() -> Any:
    given = x = keras.Input((6, 6, 2))
    for channels in (3, 4):
        x = L.Conv2D(channels, 3, padding="same", use_bias=False)(x)
        x = L.ReLU()(L.BatchNormalization(momentum=0.7)(x))
    x = L.Dense(6, "relu", kernel_regularizer="l2")(L.Flatten()(L.MaxPooling2D()(x)))
    return keras.Model(given, L.Dense(3)(L.Dropout(0.4, seed=3)(x)))


def inception() -> Any:
    given = keras.Input((6, 6, 2))
    x = L.Conv2D(4, 3, padding="same", activation="relu")(given)
    branches = [
        L.Conv2D(2, 1)(x),
        L.Conv2D(2, 3, padding="same")(L.SpatialDropout2D(0.3, seed=4)(x)),
        L.Conv2D(2, 1)(L.AveragePooling2D(3, 1, padding="same")(x)),
    ]
    x = L.Concatenate()(branches) + L.Conv2D(6, 1)(x)
    return keras.Model(given, L.Dense(3)(L.GlobalAveragePooling2D()(x)))


def words() -> Any:
    """Masks go from the embedding to the recurrent layer."""
    return keras.Sequential(
        [
            keras.Input((5,), dtype="int32"),
            L.Embedding(9, 4, mask_zero=True),
            L.BatchNormalization(),
            L.SimpleRNN(3),
            L.Dense(3),
        ]
    )


def attention() -> Any:
    given = keras.Input((5, 6))
    x = L.MultiHeadAttention(2, 3, use_bias=False)(given, given)
    x = L.LayerNormalization()(x + given)
    x = L.BatchNormalization(axis=1)(L.GaussianDropout(0.2, seed=2)(x))
    x = Gated()(x)
    return keras.Model(given, L.Dense(3)(L.GlobalAveragePooling1D()(x)))


def two_sided() -> Any:
    """Two inputs, two outputs, and a loss of activities."""
    left, right = keras.Input((4,)), keras.Input((3,))
    x = L.Dense(5, "tanh", activity_regularizer=keras.regularizers.L2(0.1))(left)
    y = L.Dense(5, "tanh")(right)
    joined = L.Multiply()([x, y])
    inner = keras.Sequential([L.Dense(5, "relu"), L.Dense(4)])
    return keras.Model([left, right], [L.Dense(3)(inner(joined)), L.Dense(3)(x)])


MODELS: Mapping[str, Callable[[], Any]] = {
    one.__name__: one for one in (vgg, inception, words, attention, two_sided)
}


def made(name: str) -> Any:
    keras.utils.set_random_seed(7)
    return MODELS[name]()


def batch_of(model: Any, samples: int = BATCH) -> tuple[Any, Any]:
    """Inputs, and the numbers of the right classes."""
    draw = np.random.default_rng(3)
    inputs = [
        tf.constant(draw.integers(0, 9, (samples, *one.shape[1:])), "int32")
        if one.dtype == "int32"
        else tf.constant(draw.standard_normal((samples, *one.shape[1:])), one.dtype)
        for one in model.inputs
    ]
    return inputs if len(inputs) > 1 else inputs[0], tf.constant(draw.integers(0, 3, samples))


def places(model: Any, kind: str) -> dict[str, Place]:
    """One device for all; all for all; other numbers one after the other; or each layer elsewhere."""
    choices: Mapping[str, list[Place]] = {
        "one": [(0, 1)],
        "all": [(0, 3)],
        "turns": [(0, 3), (0, 1), (0, 2)],
        "apart": [(1, 2), (0, 1), (2, 1), (0, 2)],
    }
    return in_turns(model, choices[kind])


def in_turns(model: Any, cycle: Sequence[Place]) -> dict[str, Place]:
    """One layer after the other gets these, again and again."""
    return {node.name: cycle[number % len(cycle)] for number, node in enumerate(nodes_of(model))}


def plan_of(chosen: Mapping[str, Place], batch: int = BATCH, devices: int = DEVICES) -> Plan:
    layers = tuple(LayerDevices(name, *place) for name, place in chosen.items())
    return Plan(layers=Layers(devices=devices, batch=batch, limit=0.0, limit_of="layer", layers=layers))


def loss_of(model: Any, inputs: Any, wanted: Any) -> Any:
    outputs = model(inputs, training=True)
    flat = outputs if isinstance(outputs, list) else [outputs]
    losses = [keras.losses.sparse_categorical_crossentropy(wanted, one, from_logits=True) for one in flat]
    return tf.add_n([tf.reduce_mean(one) for one in losses]) + sum(model.losses)


def gradients(
    model: Any, plan: Plan | None, samples: int = BATCH, devices: Sequence[str] | None = None
) -> tuple[Any, Any]:
    """A function that gives the loss of a step and its gradients, and the batch."""
    home = devices[0] if devices else "/device:CPU:0"
    weights = [variable.value for variable in model.trainable_variables]

    def asked(inputs: Any, wanted: Any) -> Any:
        with tf.device(home), tf.GradientTape() as tape:
            loss = loss_of(model, inputs, wanted)
        with tf.device(home):
            return loss, [tf.convert_to_tensor(one) for one in tape.gradient(loss, weights)]

    def step(inputs: Any, wanted: Any) -> Any:
        if plan is None:
            return asked(inputs, wanted)
        with burst(model, plan, devices):
            return asked(inputs, wanted)

    return tf.function(step, autograph=False), batch_of(model, samples)
