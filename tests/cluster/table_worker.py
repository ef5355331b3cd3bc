"""A worker that holds tables with others: `table_worker.py SCENARIO RANK ADDRESS...` prints what it found."""

import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow

from tfwave.embedding import SGD, Adagrad, Table, Workers

tf: Any = tensorflow
ROWS, WIDTH, STEPS, TOKEN_SECONDS = 37, 5, 6, 240.0
OPTIMIZERS = {"sgd": SGD(0.1), "adagrad": Adagrad(0.05)}


def start(rows: int) -> Any:
    return np.random.default_rng(3).normal(size=(rows, WIDTH)).astype(np.float32)


def bounds(workers: int) -> list[int]:
    """Shards of unlike lengths."""
    return [ROWS * k * k // workers**2 for k in range(workers + 1)]


def ids_of(step: int, rank: int) -> Any:
    """With repeats in and among workers; in one step a worker has none."""
    drawn = np.random.default_rng([step, rank]).zipf(1.3, (4, 3)) % ROWS
    return drawn[:0] if step == rank else drawn


def gradients_of(step: int, rank: int, rows: Any) -> Any:
    """Of sums that differ with their order."""
    scale = 10.0 ** np.random.default_rng([7, step, rank]).integers(-4, 5, (*rows.shape[:-1], 1))
    return (rows * scale).astype(np.float32)


def expected(name: str, workers: int) -> Any:
    """The table in one process: summed by NumPy in the order that `Table.push` says, updated by the same kernel."""
    table = Table(tf.Variable(start(ROWS), name="alone"), OPTIMIZERS[name])
    for step in range(STEPS):
        values = table.shards[0].numpy()
        sums: dict[int, Any] = {}
        for rank in range(workers):
            ids, own = ids_of(step, rank), dict[int, Any]()
            gradients = gradients_of(step, rank, values[ids]).reshape(-1, WIDTH)
            for row, gradient in zip(ids.ravel().tolist(), gradients, strict=True):
                own[row] = own[row] + gradient if row in own else gradient
            for row, gradient in own.items():
                sums[row] = sums[row] + gradient if row in sums else gradient
        rows = np.array(sorted(sums), np.int32)
        given = np.stack([sums[row] for row in rows])
        table.optimizer.apply(table.shards[0], table.slots[0], tf.constant(rows), tf.constant(given))
    return table.shards[0].numpy()


def made(name: str, group: Workers, rank: int, workers: int) -> Table:
    first, last = bounds(workers)[rank : rank + 2]
    shard = tf.Variable(start(ROWS)[first:last], name=name)
    return Table(shard, OPTIMIZERS[name], where="workers", workers=group)


def trained(table: Table, rank: int) -> None:
    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.int64), tf.TensorSpec([None, 3, 1])])
    def step(ids: Any, scale: Any) -> None:
        pulled = table.pull(ids)
        table.push(pulled, pulled.rows * scale)

    for number in range(STEPS):
        ids = ids_of(number, rank)
        scale = gradients_of(number, rank, np.ones((*ids.shape, 1), np.float32))
        step(ids, scale)


def tell(found: dict[str, bool]) -> None:
    """Stay in the group until all have told: who leaves ends it."""
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()
    sys.stdin.read()


def same_bits(group: Workers, rank: int, workers: int) -> None:
    found = dict[str, bool]()
    first, last = bounds(workers)[rank : rank + 2]
    tables = {name: made(name, group, rank, workers) for name in OPTIMIZERS}
    for name, table in tables.items():
        trained(table, rank)
        whole = expected(name, workers)
        found[name] = table.shards[0].numpy().tobytes() == whole[first:last].tobytes()
        found[f"{name} learned"] = whole.tobytes() != start(ROWS).tobytes()
        found[f"{name} rows"] = table.rows == ROWS and table.where == "workers"
    try:
        tables["sgd"].pull([ROWS])
    except tf.errors.InvalidArgumentError as err:
        found["out of range"] = f"rows 0 to {ROWS - 1}" in str(err)
    tell(found)


def one_dies(group: Workers, rank: int, workers: int) -> None:
    """The last one does, once all have a table; the others hear of it, and go on as a group of their own."""
    table = made("sgd", group, rank, workers)
    if rank == workers - 1:
        table.pull([[0, 1, 2]])  # which the others take part in: they have made theirs
        os.kill(os.getpid(), signal.SIGKILL)
    found = dict[str, bool]()
    for what in ("while it waits", "later"):
        while what not in found:
            try:
                table.pull([[0, 1, 2]])
            except tf.errors.AbortedError as err:
                found[what] = f"rank {workers - 1} is gone" in str(err)
    group.close()
    with Workers(sys.argv[3:-1], rank, patience=TOKEN_SECONDS) as fewer:
        again = made("adagrad", fewer, rank, workers - 1)
        found["a new group"] = bool(np.all(again.pull(np.arange(again.rows)).rows == start(ROWS)))
        tell(found)


SCENARIOS: dict[str, Callable[[Workers, int, int], None]] = {
    "same_bits": same_bits,
    "one_dies": one_dies,
}


def main(scenario: str, rank: int, addresses: Sequence[str]) -> None:
    with Workers(addresses, rank, patience=TOKEN_SECONDS, deadline=TOKEN_SECONDS) as group:
        SCENARIOS[scenario](group, rank, len(addresses))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
