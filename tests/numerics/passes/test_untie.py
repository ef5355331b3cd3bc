"""untie on training steps of Keras 3 under a strategy, which passes all gradients through one IdentityN."""

from contextlib import ExitStack
from typing import Any

import keras
import numpy as np
import pytest

import tfwave
from tests.numerics.corpus.function import optimized

pytestmark = pytest.mark.tensorflow


def trained(tf: Any, *, untie: bool, grappler: bool) -> tuple[list[bytes], int]:
    """The variables after some steps with all that Keras does to gradients; and how many ends are untied."""
    keras.utils.set_random_seed(1)
    generator = np.random.default_rng(7)
    strategy = tf.distribute.OneDeviceStrategy("/CPU:0")
    with strategy.scope():
        layers = keras.layers
        hidden = [layers.Conv2D(8, 3, activation="relu"), layers.BatchNormalization(), layers.Flatten()]
        model = keras.Sequential(
            [keras.Input((8, 8, 3)), *hidden, layers.Dense(32, "gelu"), layers.Dense(10)]
        )
        model.compile(
            keras.optimizers.AdamW(0.01, weight_decay=0.01, clipvalue=0.1),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            jit_compile=False,
        )
        model.optimizer.build(model.trainable_variables)
    step = tf.function(lambda *batch: strategy.run(model.train_step, args=(batch,)), autograph=False)
    batches = [
        (generator.standard_normal((16, 8, 8, 3), np.float32), generator.integers(0, 10, 16))
        for _ in range(5)
    ]
    with ExitStack() as stack:
        if untie:
            stack.enter_context(tfwave.install(step, tfwave.parse_pipeline("untie")))
        with optimized(grappler):
            for batch in batches:
                step(*batch)
        nodes = step.get_concrete_function(*batches[0]).graph.get_operations()
    variables = [*model.variables, *model.optimizer.variables]
    return [v.numpy().tobytes() for v in variables], sum("/untie_" in n.name for n in nodes)


@pytest.mark.parametrize("grappler", [False, True])
def test_keras_trains_the_same_bits(tf: Any, grappler: bool) -> None:
    expected, none = trained(tf, untie=False, grappler=grappler)
    found, ends = trained(tf, untie=True, grappler=grappler)
    assert (none, ends) == (0, 8)
    assert found == expected
