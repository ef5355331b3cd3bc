"""What a chief of two workers does in the tests of tfwave.embedding."""

from typing import Any

import numpy as np
import tensorflow as tf

from tests.cluster.scenario_chief import ask
from tfwave.embedding import SGD, Adagrad, Table, staged

BATCHES, ROWS = 48, 6


def _variable(server: int, shape: tuple[int, int]) -> Any:
    with tf.device(f"/job:ps/task:{server}"):
        return tf.Variable(tf.zeros(shape))


def _tables() -> dict[str, Table]:
    """By rows, by columns and whole."""
    by_rows = [_variable(0, (4, 2)), _variable(1, (2, 2))]
    return {
        "rows": Table(tf.__internal__.distribute.ShardedVariable(by_rows, name="rows"), SGD(0.5)),
        "columns": Table([_variable(0, (ROWS, 1)), _variable(1, (ROWS, 2))], Adagrad(0.1, 0.0)),
        "whole": Table(_variable(1, (ROWS, 2)), SGD(0.25)),
    }


def _data() -> tuple[Any, dict[str, Any]]:
    """Batches, and how many of them have each row, as a sum of (ids of a row in a batch) and of its square."""
    random = np.random.default_rng(5)
    ids = {table: random.integers(0, ROWS, (BATCHES, 8)) for table in ("rows", "columns", "whole")}
    counts = {t: np.stack([np.bincount(own, minlength=ROWS) for own in some]) for t, some in ids.items()}
    return tf.data.Dataset.from_tensor_slices((ids, tf.zeros(BATCHES))), counts


def _step(embedded: Any, batch: Any) -> Any:
    """Each id has a gradient of ones, whatever its row: sums are exact, and the same in any order."""
    return batch, {table: tf.ones_like(rows) for table, rows in embedded.items()}


def ledger(strategy: Any, staleness: int) -> dict[str, bool]:
    """Whether each gradient of each batch came to its row once."""
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    tables, (data, counts) = _tables(), _data()
    for call in staged(_step, tables, steps=3, staleness=staleness).calls(data):
        coordinator.schedule(call.function, args=call.args)
    coordinator.join()
    rows = np.concatenate([shard.numpy() for shard in tables["rows"].shards])
    accumulators = np.concatenate([slots[0].numpy() for slots in tables["columns"].slots], 1)
    return {
        "rows": bool(np.all(rows == -0.5 * counts["rows"].sum(0)[:, None])),
        "columns": bool(np.all(accumulators == (counts["columns"] ** 2).sum(0)[:, None])),
        "whole": bool(np.all(tables["whole"].shards[0].numpy() == -0.25 * counts["whole"].sum(0)[:, None])),
    }


def loses_one_of_two(strategy: Any) -> dict[str, bool]:
    """A worker is killed between calls: the other one takes its calls, and nothing is lost."""
    before = ledger(strategy, 0)
    ask("kill the second worker")
    after = ledger(strategy, 0)
    return before if not all(before.values()) else after
