"""One host of reduced_steps.py: `reduced_steps_task.py MODE ADDRESSES RANK WIDTH LAYERS BATCH STEPS`.

Prints as JSON seconds of the steps, the gradient's bytes, and a print of the weights.
"""

import hashlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ["TF_NUM_INTRAOP_THREADS"] = "1"  # hosts share this machine's cores
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import keras
import numpy as np

from tfwave.keras import PartialReduce
from tfwave.reduce import growing
from tfwave.runtime.control.credentials import Credentials

PORT = 24445
WARM_UP = 3


class Clock(keras.callbacks.Callback):
    """When each step ended."""

    def __init__(self) -> None:
        super().__init__()
        self.moments = list[float]()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Note it."""
        self.moments.append(time.perf_counter())


def main() -> None:
    """Train by a mode: "buckets", "whole" or "alone"."""
    mode, addresses, rank, *numbers = sys.argv[1:]
    width, layers, batch, steps = map(int, numbers)
    if mode == "whole":
        growing.LEAST_BYTES = sys.maxsize
    keras.utils.set_random_seed(0)
    dense = [keras.layers.Dense(width, activation="tanh") for _ in range(layers)]
    model: Any = keras.Sequential([keras.Input((width,)), *dense])
    model.compile(keras.optimizers.SGD(0.01), "mse", jit_compile=False)
    workers = [f"{address}:{PORT}" for address in addresses.split(",")]
    reduces = PartialReduce(
        "all", workers=workers, rank=int(rank), credentials=Credentials("only-for-this-benchmark")
    )
    clock = Clock()
    x = np.random.default_rng(int(rank)).standard_normal(((WARM_UP + steps) * batch, width), np.float32)
    callbacks = [clock] if mode == "alone" else [reduces, clock]
    model.fit(x, x, batch, verbose=0, shuffle=False, callbacks=callbacks)
    weights = model.get_weights()
    told = {
        "seconds": np.diff(clock.moments)[WARM_UP - 1 :].tolist(),
        "bytes": sum(each.nbytes for each in weights),
        "weights": hashlib.sha256(b"".join(each.tobytes() for each in weights)).hexdigest(),
    }
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
