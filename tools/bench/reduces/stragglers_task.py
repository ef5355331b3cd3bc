"""One worker of stragglers.py: it tells how far it came when time is up.

Worker 0 keeps its weights now and then, and tells afterwards what loss they had; training goes on meanwhile, until
the chief ends it.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

import tfwave.keras

CLASSES, BATCH = 10, 32
Tell = Callable[[dict[str, Any]], None]
SNAPSHOT_SECONDS = 0.25
MODELS: dict[str, tuple[tuple[int, ...], float, Callable[[], list[Any]]]] = {
    "conv": (
        (16, 16, 1),
        0.05,
        lambda: [
            tf_keras.layers.Conv2D(8, 3, strides=2, activation="relu"),
            tf_keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
            tf_keras.layers.Flatten(),
        ],
    ),
    "lstm": ((16, 8), 0.5, lambda: [tf_keras.layers.LSTM(32)]),
}
"""Of each the shape of an example, its learning rate, and its layers before the last."""


def make_model(kind: str) -> Any:
    """Compiled; the same weights in all workers."""
    tf_keras.utils.set_random_seed(0)
    shape, rate, layers = MODELS[kind]
    model = tf_keras.Sequential([tf_keras.Input(shape), *layers(), tf_keras.layers.Dense(CLASSES)])
    loss = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf_keras.optimizers.SGD(rate), loss, metrics=["accuracy"])
    return model


def examples(kind: str, seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Each a class's pattern in noise."""
    shape = MODELS[kind][0]
    patterns = np.random.default_rng(0).normal(size=(CLASSES, *shape))
    chance = np.random.default_rng(seed)
    labels = chance.integers(0, CLASSES, count)
    noisy = patterns[labels] + 2.0 * chance.normal(size=(count, *shape))
    return noisy.astype(np.float32), labels.astype(np.int64)


class Watch(tf_keras.callbacks.Callback):
    """Delays each step, and tells at the end of the time how far it came."""

    def __init__(self, given: dict[str, Any], rank: int, tell: Tell) -> None:
        super().__init__()
        self._given, self._rank, self._tell = given, rank, tell
        self._chance = np.random.default_rng([given["seed"], rank])
        self._begin = 0.0
        self._snapshots: list[tuple[float, list[Any]]] = []
        self.steps = 0

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """The time begins with the second step, after the trace."""
        if batch == 1:
            self._begin = time.monotonic()
            threading.Timer(self._given["seconds"], self._sum_up).start()
        low, high = self._given["delays"][self._rank]
        time.sleep(self._given["base"] + self._chance.uniform(low, high))

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Worker 0 keeps its weights."""
        if batch:
            self.steps += 1
            passed = time.monotonic() - self._begin
            last = self._snapshots[-1][0] if self._snapshots else -SNAPSHOT_SECONDS
            if self._rank == 0 and last + SNAPSHOT_SECONDS <= passed < self._given["seconds"]:
                model: Any = self.model
                self._snapshots.append((passed, model.get_weights()))

    def _sum_up(self) -> None:
        told: dict[str, Any] = {"steps": self.steps}
        if self._rank == 0:
            twin, held_out = make_model(self._given["model"]), examples(self._given["model"], 10**6, 1024)
            told["curve"] = []
            for passed, weights in self._snapshots:
                twin.set_weights(weights)
                loss, accuracy = twin.evaluate(*held_out, 1024, verbose=0)
                told["curve"].append([passed, loss, accuracy])
        self._tell(told)


def train(given: dict[str, Any], rank: int, tell: Tell) -> None:
    """By one mode: "stock", "all", "rna", or "apart", where no worker hears of another; as TF_CONFIG says."""
    mode, kind = given["mode"], given["model"]

    def batches(_: Any = None) -> Any:
        x, y = examples(kind, 1000 * given["seed"] + rank, 4096)
        dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(4096, seed=given["seed"])
        return dataset.repeat().batch(BATCH, drop_remainder=True)

    callbacks: list[Any] = [Watch(given, rank, tell)]
    if mode == "stock":
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        with strategy.scope():
            model = make_model(kind)
        data = strategy.distribute_datasets_from_function(batches)
    else:
        model, data = make_model(kind), batches()
        if mode != "apart":
            probes = "all" if mode == "all" else 2
            callbacks.insert(0, tfwave.keras.PartialReduce(probes, "sum"))
    model.fit(data, steps_per_epoch=1 << 30, verbose=0, callbacks=callbacks)
