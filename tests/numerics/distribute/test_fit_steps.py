"""Steps of a Keras model in one function, as workers run them: with the bits of single steps."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfwave.distribute.overlap import step_choice
from tfwave.keras.data import Dealt
from tfwave.keras.steps import StepFunctions

pytestmark = pytest.mark.tensorflow


class Recurrent(keras.Model):
    """Its step reads a weight three times."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = self.add_weight(shape=(33, 33))
        self.built = True

    def train_step(self, data: Any) -> Any:
        hidden = data
        with tf.GradientTape() as tape:
            for _ in range(3):
                hidden = tf.tanh(hidden @ self.kernel + data)
            loss = tf.reduce_mean(hidden**2)
        self.optimizer.apply([tape.gradient(loss, self.kernel.value)])
        return {}


def trained(steps: int) -> bytes:
    keras.utils.set_random_seed(7)
    model = Recurrent()
    model.compile(keras.optimizers.SGD(0.5))
    model.optimizer.build(model.trainable_variables)
    batches = np.random.default_rng(3).standard_normal((4 * 17, 33)).astype("f")
    source = Dealt(tf.data.Dataset.from_tensor_slices(batches).batch(17, drop_remainder=True), None)
    functions = StepFunctions(model, model.train_step, (), step_choice("fit", steps, None), lambda _: None)
    for count, argument in source.epoch(lambda: steps):
        functions.of(count, source)(argument)
    return model.kernel.numpy().tobytes()


def test_sums_of_many_terms_have_the_bits_of_single_steps() -> None:
    """TensorFlow's optimizer sorts the terms by the names of their ops."""
    assert trained(4) == trained(1)
