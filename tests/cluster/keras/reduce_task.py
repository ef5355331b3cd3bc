"""A worker with `tfwave.keras.PartialReduce`: `python -m tests.cluster.keras.reduce_task JSON`, with TF_CONFIG.

Prints as JSON what it ended with; `kill` says before which step of which epoch it kills itself. Worker 0 alone
saves the model after each epoch, to `save`, or loads it from `resume`, to go on with epoch `first`. With
`loop` it trains by a custom loop, and `tfwave.distribute.reduce`. A bucket of gradients has `bucket_bytes` or more.
"""

import hashlib
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tfwave.distribute
import tfwave.keras
from tfwave.reduce import growing

EPOCHS, BATCH, STEPS = 3, 8, 12


def build(given: dict, seed: int) -> keras.Model:
    keras.utils.set_random_seed(seed)
    if "policy" in given:
        keras.mixed_precision.set_global_policy(given["policy"])
    layers = [keras.layers.Dense(16, "relu"), keras.layers.Dense(4)]
    model = keras.Sequential([keras.Input((6,)), *layers])
    model.compile(
        getattr(keras.optimizers, given["optimizer"])(0.01),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        steps_per_execution=given.get("steps_per_execution", 1),
    )
    return model


def data(rank: int) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(rank).normal(size=(BATCH * STEPS, 6)).astype("f")
    return x, (x @ np.random.default_rng(9).normal(size=(6, 4))).argmax(1)


class Harm(keras.callbacks.Callback):
    def __init__(self, kill: list[int] | None, longest_step: float) -> None:
        super().__init__()
        self.kill, self.longest_step, self.epoch, self.executions = kill, longest_step, 0, 0

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        self.epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: dict | None = None) -> None:
        time.sleep(np.random.default_rng().uniform(0, self.longest_step))
        if [self.epoch, batch] == self.kill:
            os.kill(os.getpid(), signal.SIGKILL)

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        self.executions += 1


def digest(model: keras.Model) -> str:
    """Of all that must be the same everywhere."""
    return digest_of([*model.trainable_variables, *model.optimizer.variables])


def digest_of(variables: Sequence[Any]) -> str:
    return hashlib.sha256(b"".join(np.asarray(each).tobytes() for each in variables)).hexdigest()


def begin(given: dict, rank: int) -> keras.Model:
    if rank == 0 and "resume" in given:
        return keras.models.load_model(given["resume"])
    return build(given, rank)


def batches(first: int = 0) -> list[slice]:
    return [slice(step * BATCH, (step + 1) * BATCH) for _ in range(first, EPOCHS) for step in range(STEPS)]


def gradients_of(model: keras.Model, x: tf.Tensor, y: tf.Tensor) -> list[tf.Tensor]:
    with tf.GradientTape() as tape:
        loss = model.compute_loss(y=y, y_pred=model(x, training=True))
    return tape.gradient(loss, model.trainable_variables)


def train_by_loop(given: dict, rank: int) -> tuple[keras.Model, dict]:
    model, (x, y) = begin(given, rank), data(rank)
    variables = model.trainable_variables

    def step(x: tf.Tensor, y: tf.Tensor) -> None:
        model.optimizer.apply(gradients_of(model, x, y), variables)

    with tfwave.distribute.reduce(step, model.optimizer, variables, **given["reduce"]) as reduced:
        for rows in batches():
            reduced(x[rows], y[rows])
    return model, {}


def train_by_fit(given: dict, rank: int) -> tuple[keras.Model, dict]:
    model, (x, y) = begin(given, rank), data(rank)
    started = int(model.optimizer.iterations)
    reduce = tfwave.keras.PartialReduce(**given["reduce"])
    kill = given["kill"] if rank == given.get("victim") else None
    harm = Harm(kill, given.get("longest_step", 0.0))
    callbacks = [reduce, harm]
    if rank == 0 and "save" in given:
        callbacks.append(keras.callbacks.ModelCheckpoint(given["save"]))
    history = model.fit(
        x,
        y,
        BATCH,
        EPOCHS,
        verbose=0,
        shuffle=False,
        validation_data=data(100),
        initial_epoch=given.get("first", 0),
        callbacks=callbacks,
    )
    layer = model.layers[0]
    return model, {
        "history": history.history,
        "started": started,
        "executions": harm.executions,
        "types": [layer.compute_dtype, layer.variable_dtype],
    }


def synchronous(given: dict, workers: int) -> str:
    """The same training in one process: in each step the mean of the workers' gradients."""
    model, shards = begin(given, 0), [data(rank) for rank in range(workers)]
    gradients = tf.function(lambda x, y: gradients_of(model, x, y))
    for rows in batches(given.get("first", 0)):
        each = [gradients(x[rows], y[rows]) for x, y in shards]
        means = [sum(of_one[1:], of_one[0]) / workers for of_one in zip(*each, strict=True)]
        model.optimizer.apply(means, model.trainable_variables)
    return digest(model)


def main(given: dict) -> None:
    config = json.loads(os.environ["TF_CONFIG"])
    rank, workers = config["task"]["index"], len(config["cluster"]["worker"])
    growing.LEAST_BYTES = given.get("bucket_bytes", growing.LEAST_BYTES)
    model, found = (train_by_loop if given.get("loop") else train_by_fit)(given, rank)
    said = {
        "rank": rank,
        "digest": digest(model),
        "weights": digest_of(model.trainable_variables),
        "iterations": int(model.optimizer.iterations),
        "restored": "apply" not in vars(model.optimizer),
        **found,
    }
    if given.get("synchronous") and rank == 0:
        said["synchronous"] = synchronous(given, workers)
    sys.stdout.write(json.dumps(said) + "\n")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
