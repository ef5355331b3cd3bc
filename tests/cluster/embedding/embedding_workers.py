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


def _tables(strategy: Any) -> dict[str, Table]:
    """By rows, by columns, and whole, wherever the strategy has put it."""
    by_rows = [_variable(0, (4, 2)), _variable(1, (2, 2))]
    with strategy.scope():
        whole = Table(tf.Variable(tf.zeros((ROWS, 2))), Adagrad(0.1, 0.0))
    return {
        "rows": Table(tf.__internal__.distribute.ShardedVariable(by_rows, name="rows"), SGD(0.5)),
        "columns": Table([_variable(0, (ROWS, 1)), _variable(1, (ROWS, 2))], Adagrad(0.1, 0.0)),
        "whole": whole,
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


def ledger(strategy: Any, staleness: int, hot_bytes: int = 0) -> dict[str, bool]:
    """Whether each gradient of each batch came to its row once."""
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    tables, (data, counts) = _tables(strategy), _data()
    for call in staged(_step, tables, steps=3, staleness=staleness, hot_bytes=hot_bytes).calls(data):
        coordinator.schedule(call.function, args=call.args)
    coordinator.join()
    rows = np.concatenate([shard.numpy() for shard in tables["rows"].shards])
    squares = {
        t: np.concatenate([own[0].numpy() for own in tables[t].slots], 1) for t in ("columns", "whole")
    }
    return {
        "rows": bool(np.all(rows == -0.5 * counts["rows"].sum(0)[:, None])),
        **{t: bool(np.all(own == (counts[t] ** 2).sum(0)[:, None])) for t, own in squares.items()},
    }


def loses_one_of_two(strategy: Any) -> dict[str, bool]:
    """A worker is killed between calls: the other one takes its calls, and nothing is lost."""
    before = ledger(strategy, 0)
    ask("kill the second worker")
    after = ledger(strategy, 0)
    return before if not all(before.values()) else after
