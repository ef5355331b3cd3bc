"""Whether a step takes longer, or more memory, because a table has more rows: staged, and as Keras 3 has it.

Each batch has the same ids but for their places: those of a small table, dealt out over the rows there are. Both
train by Adagrad, in this process and without a network, in turn. Memory is what a process had at most in a call,
over what it had before.

    tools/bench/embeddings/table_size.py --rows 10000000
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": "tensorflow", "CUDA_VISIBLE_DEVICES": ""}

import numpy as np

from tools.bench.resident import peak_bytes_of

LEAST_ROWS = 200_000
_ZIPF = 1.1
_RATE = 0.05

Train = Callable[[Any], object]
"""Makes a call's steps on a dataset of (ids, labels)."""


def batches(given: argparse.Namespace, first: int) -> Any:
    """A dataset of one call."""
    import tensorflow as tf

    shares = np.cumsum(1 / np.arange(1, LEAST_ROWS + 1) ** _ZIPF)
    drawn: list[tuple[Any, Any]] = []
    for seed in range(first, first + given.steps):
        random = np.random.default_rng(seed)
        places = np.searchsorted(shares / shares[-1], random.random(given.batch))
        labels = random.integers(0, 2, given.batch).astype(np.float32)
        drawn.append(((places * (given.rows // LEAST_ROWS)).astype(np.int64), labels))
    return tf.data.Dataset.from_tensor_slices(tuple(map(np.stack, zip(*drawn, strict=True))))


def staged_table(given: argparse.Namespace) -> Train:
    import tensorflow as tf

    from tfwave.embedding import Adagrad, Table, staged

    table = Table(tf.Variable(tf.zeros([given.rows, given.width])), Adagrad(_RATE))
    weights = tf.Variable(tf.ones([given.width]))

    def step(embedded: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(embedded)
            logits = tf.linalg.matvec(embedded["ids"], weights)
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, logits))
        rows, dense = cast("tuple[Any, Any]", tape.gradient(loss, (embedded, weights)))
        weights.assign_sub(_RATE * dense)
        return loss, rows

    train = staged(step, {"ids": table}, steps=given.steps)

    def run(data: Any) -> None:
        for call in train.calls(data.map(lambda ids, labels: ({"ids": ids}, labels))):
            call.function(*call.args)

    return run


def keras_table(given: argparse.Namespace) -> Train:
    import keras

    layers = [keras.layers.Embedding(given.rows, given.width, "zeros"), keras.layers.Dense(1)]
    model: Any = keras.Sequential([keras.Input((), dtype="int64"), *layers])
    model.compile(keras.optimizers.Adagrad(_RATE), keras.losses.BinaryCrossentropy(from_logits=True))
    return lambda data: model.fit(data, verbose=0)


def measure(given: argparse.Namespace) -> dict[str, Any]:
    seconds: dict[str, list[float]] = {"staged": [], "keras": []}
    ways = {"staged": staged_table(given), "keras": keras_table(given)}
    peaks: dict[str, int] = {}
    for way, train in ways.items():
        train(batches(given, 0))  # traces
        peaks[way] = peak_bytes_of(lambda train=train: train(batches(given, 1)))
    for call in range(given.repeats):
        for way, train in ways.items():
            data = batches(given, call * given.steps)
            begin = time.perf_counter()
            train(data)
            seconds[way].append((time.perf_counter() - begin) / given.steps)
    return {
        "given": vars(given),
        "table_bytes": given.rows * given.width * 4,
        "modes": {
            way: {"median_seconds": statistics.median(own), "blocks_seconds": own, "peak_bytes": peaks[way]}
            for way, own in seconds.items()
        },
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=LEAST_ROWS, help=f"a multiple of {LEAST_ROWS}")
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--batch", type=int, default=8192, help="ids of a step")
    parser.add_argument("--steps", type=int, default=8, help="of a call")
    parser.add_argument("--repeats", type=int, default=7)
    print(json.dumps(measure(parser.parse_args()), indent=1))
