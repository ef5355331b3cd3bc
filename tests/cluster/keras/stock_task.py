"""A worker that trains twice, by TensorFlow's strategy and by reduces: `-m tests.cluster.keras.stock_task JSON`.

With tf_keras: `MultiWorkerMirroredStrategy` cannot train a model of Keras 3. For each optimizer that
is asked for it prints, as JSON, how far apart the weights of the two trainings are, of the largest weight of each
variable, and how far they came from where they began.
"""

import json
import os
import sys
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

import tfwave.keras

BATCH, STEPS = 8, 15


def build(optimizer: str) -> Any:
    tf_keras.utils.set_random_seed(3)
    model = tf_keras.Sequential(
        [
            tf_keras.Input((8, 8, 1)),
            tf_keras.layers.Conv2D(4, 3, activation="relu"),
            tf_keras.layers.Flatten(),
            tf_keras.layers.Dense(16, "relu"),
            tf_keras.layers.Dense(5),
        ]
    )
    loss = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(getattr(tf_keras.optimizers, optimizer)(0.01), loss)
    return model


def batches(rank: int) -> tf.data.Dataset:
    chance = np.random.default_rng(rank)
    x = chance.normal(size=(BATCH * STEPS, 8, 8, 1)).astype("f")
    y = (x.reshape(len(x), -1) @ np.random.default_rng(9).normal(size=(64, 5))).argmax(1)
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH, drop_remainder=True)


def train_by_stock(strategy: Any, optimizer: str, rank: int) -> list[np.ndarray]:
    with strategy.scope():
        model = build(optimizer)
    data = strategy.distribute_datasets_from_function(lambda _: batches(rank))
    model.fit(data, steps_per_epoch=STEPS, verbose=0)
    return model.get_weights()


def train_by_reduces(optimizer: str, rank: int, workers: list[str]) -> list[np.ndarray]:
    model = build(optimizer)
    reduce = tfwave.keras.PartialReduce("all", workers=workers, rank=rank)
    model.fit(batches(rank), verbose=0, callbacks=[reduce])
    return model.get_weights()


def apart(ones: list[np.ndarray], others: list[np.ndarray]) -> float:
    """Of all variables the most, relative to the largest element."""
    return max(
        float(np.abs(one - other).max() / np.abs(other).max())
        for one, other in zip(ones, others, strict=True)
    )


def main(given: dict[str, Any]) -> None:
    rank = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    found = {}
    for optimizer, workers in given["addresses"].items():
        stock = train_by_stock(strategy, optimizer, rank)
        reduced = train_by_reduces(optimizer, rank, workers)
        found[optimizer] = {
            "apart": apart(reduced, stock),
            "moved": apart(stock, build(optimizer).get_weights()),
            "weights": [float(value) for value in reduced[-1]],
        }
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()
    os._exit(0)  # TensorFlow's server would wait for the other worker's


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
