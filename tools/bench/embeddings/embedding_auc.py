"""What stale rows cost: the AUC of a DeepFM-like model behind the same samples, with rows 0, 1 and 3 updates old.

Ids of 13 features of Criteo's cardinalities, at most 20,000 each, come by a power law; whether a sample is positive
is drawn from the products of hidden vectors of its ids (one model for all seeds). All train on the same batches in
the same order, by `tfwave.embedding.staged` in this process, and are judged on the same 60,000 samples that none
has seen. Figures are AUC in points of a hundred. One thread: two runs print the same.

    tools/bench/embeddings/embedding_auc.py                    five seeds, 400 batches of 1024
    tools/bench/embeddings/embedding_auc.py --seeds 1 --json
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import numpy as np

from tools.bench.embeddings.embedding_chief import CARDINALITIES, zipf
from tools.bench.embeddings.recommenders import deepfm

FIELDS, MOST_ROWS, WIDTH, JUDGED, STEPS = 13, 20_000, 16, 60_000, 16
_RATE = 0.05
_PAIRS = ((0, 1), (3, 4), (6, 9), (2, 12))
"""Features whose hidden vectors are multiplied."""


def samples(seed: int, count: int) -> tuple[Any, Any]:
    """Ids of shape [count, FIELDS], numbered through all features, and labels."""
    hidden, random = np.random.default_rng(1234), np.random.default_rng(seed)
    rows = [min(some, MOST_ROWS) for some in CARDINALITIES[:FIELDS]]
    vectors = [hidden.normal(size=(some, 4)) for some in rows]
    ids = [zipf(random, some, count) for some in rows]
    told = [own[some] for own, some in zip(vectors, ids, strict=True)]
    logits = 0.35 * sum(some[:, 0] for some in told) - 1.2
    logits += 0.25 * sum((told[a][:, 1:] * told[b][:, 1:]).sum(1) for a, b in _PAIRS)
    labels = random.random(count) < 1 / (1 + np.exp(-logits))
    return np.stack(ids, 1) + np.cumsum([0, *rows[:-1]]), labels.astype(np.float32)


def auc(scores: Any, labels: Any) -> float:
    """The share of pairs of a positive and a negative sample that are scored in this order."""
    ranks = np.empty(len(scores))
    ranks[np.argsort(scores, kind="stable")] = np.arange(1, len(scores) + 1)
    positive = labels.sum()
    least = positive * (positive + 1) / 2
    return float((ranks[labels > 0].sum() - least) / (positive * (len(labels) - positive)))


def trained(staleness: int, seed: int, asked: argparse.Namespace) -> float:
    """The AUC."""
    import tensorflow as tf

    from tfwave.embedding import Adagrad, Table, staged

    tf.config.threading.set_intra_op_parallelism_threads(1)
    rows = sum(min(some, MOST_ROWS) for some in CARDINALITIES[:FIELDS])
    table = tf.Variable(tf.random.stateless_uniform([rows, WIDTH], (seed, 1), -0.05, 0.05))
    model = deepfm(FIELDS, WIDTH, 0)
    squares = [tf.Variable(tf.fill(weight.shape, 0.1)) for weight in model.weights]

    def logits(embedded: Any) -> Any:
        return model.logits(tf.unstack(embedded, FIELDS, 1), tf.zeros([tf.shape(embedded)[0], 0]))

    def step(embedded: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(embedded)
            losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, logits(embedded["ids"]))
            loss = tf.reduce_mean(losses)
        gradients: Any = tape.gradient(loss, (embedded, model.weights))
        for weight, square, gradient in zip(model.weights, squares, gradients[1], strict=True):
            square.assign_add(tf.square(gradient))
            weight.assign_sub(_RATE * gradient / tf.sqrt(square))
        return loss, gradients[0]

    ids, labels = samples(seed + 10, asked.batch * asked.batches)
    pairs: Any = ({"ids": ids}, labels)
    data = tf.data.Dataset.from_tensor_slices(pairs).batch(asked.batch)
    train = staged(step, {"ids": Table(table, Adagrad(_RATE))}, staleness=staleness, steps=STEPS)
    for call in train.calls(data):
        call.function(*call.args)
    ids, labels = samples(9999, JUDGED)
    return auc(tf.function(lambda some: logits(tf.gather(table, some)))(ids).numpy(), labels)


def measure(asked: argparse.Namespace) -> dict[str, Any]:
    """AUC in points, by staleness and seed, and the gap of the means to exact steps."""
    found = {old: [100 * trained(old, seed, asked) for seed in range(asked.seeds)] for old in asked.staleness}
    means = {old: float(np.mean(own)) for old, own in found.items()}
    exact = means[asked.staleness[0]]
    return {"auc": found, "means": means, "gaps": {old: exact - mean for old, mean in means.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--batches", type=int, default=400)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--staleness", type=int, nargs="+", default=[0, 1, 3], help="gaps are to the first")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    facts = measure(asked)
    if asked.json:
        print(json.dumps(facts, indent=1))
        return
    print(f"rows old  {'  '.join(f'seed {seed}' for seed in range(asked.seeds))}    mean     gap")
    for old, own in facts["auc"].items():
        scores = "  ".join(f"{one:6.3f}" for one in own)
        print(f"{old:8d}  {scores}  {facts['means'][old]:6.3f}  {facts['gaps'][old]:+.3f}")


if __name__ == "__main__":
    main()
