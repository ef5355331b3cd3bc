"""A training step of Keras 3: convolution, batch norm, dropout, Adam; variables on another device."""

import keras
import numpy as np
import tensorflow as tf

from tests.numerics.corpus.function import FunctionSample, function_sample
from tests.numerics.corpus.places import LOCAL

SHAPE = (4, 16, 16, 3)
CLASSES = 10


def build(name: str) -> FunctionSample:
    """`model.train_step` on a batch of 4; outputs the mean loss so far, and the accuracy."""
    keras.utils.set_random_seed(1)
    generator = np.random.default_rng(7)
    images = generator.standard_normal(SHAPE, np.float32)
    labels = generator.integers(0, CLASSES, SHAPE[0])
    with tf.device(LOCAL.servers[0]):
        model = _model()
        model.train_on_batch(images, labels)  # makes the variables of the optimizer and of the metrics

    @tf.function(autograph=False)
    def step(images, labels):
        with tf.device(LOCAL.worker):
            logs = model.train_step((images, labels))
        return logs["loss"], logs["accuracy"]

    variables = [v.value for v in (*model.variables, *model.metrics_variables, *model.optimizer.variables)]
    return function_sample(name, step, {"images": images, "labels": labels}, variables)


def _model() -> keras.Model:
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input(SHAPE[1:]),
            layers.Conv2D(8, 3, activation="relu"),
            layers.BatchNormalization(),
            layers.Conv2D(8, 3, activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dropout(0.3, seed=3),
            layers.Dense(CLASSES),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.Adam(0.01),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        jit_compile=False,
    )
    return model
