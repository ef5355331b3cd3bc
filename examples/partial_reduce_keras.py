"""Keras 3 on several processes that need not wait for the slowest.

Run it on this machine: `tfwave launch --reduce --workers 3 examples/partial_reduce_keras.py`.
"""

import json
import os

import keras
import numpy as np

import tfwave.keras


def shard(index: int) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(index).normal(size=(2048, 32)).astype("float32")
    return x, (x @ np.random.default_rng(100).normal(size=(32, 4))).argmax(axis=1)


def main() -> None:
    rank = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    model = keras.Sequential(
        [keras.Input((32,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(4)]
    )
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    reduce = tfwave.keras.PartialReduce()
    history = model.fit(*shard(rank), batch_size=32, epochs=3, callbacks=[reduce], verbose=0)
    _, accuracy = model.evaluate(*shard(1000), verbose=0)  # the same on all: so are the weights
    joined = history.history["tfwave_joined"][-1]
    reduces = int(model.optimizer.iterations)
    print(f"worker {rank}: {reduces} reduces, {joined:.0%} joined, accuracy {accuracy:.3f}")


if __name__ == "__main__":
    if "TF_CONFIG" not in os.environ:
        raise SystemExit(f"run it on a job of this machine: tfwave launch --reduce {__file__}")
    main()
