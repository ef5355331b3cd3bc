"""Holds tables with other workers: `table_worker.py SCENARIO FOLDER RANK ADDRESS...` prints what it found."""

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow

from tfwave.embedding import LFU, SGD, Adagrad, Dynamic, RowWiseAdagrad, Table, Workers
from tfwave.errors import TfwaveError

tf: Any = tensorflow
ROWS, WIDTH, STEPS, TOKEN_SECONDS = 37, 5, 6, 240.0
OPTIMIZERS = {"sgd": SGD(0.1), "adagrad": Adagrad(0.05), "row_wise": RowWiseAdagrad(0.05)}
COUNTED = {"adagrad": Adagrad(0.1, 0.0), "row_wise": RowWiseAdagrad(0.1, 0.0)}
LONG_BYTES = 1 << 28
SAVED, KILLED, LAST = 3, 5, 8
"""Steps: a checkpoint is of the first 3, and a worker dies in the sixth of 8."""
KEPT = 4
"""Ids that each worker leaves their rows."""


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
    table, slots = plain(start(ROWS), OPTIMIZERS[name])
    for step in range(STEPS):
        values = table.numpy()
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
        OPTIMIZERS[name].apply(table, slots, tf.constant(rows), tf.constant(given))
    return table.numpy()


def plain(values: Any, optimizer: Any) -> tuple[Any, list[Any]]:
    """A table and its slots, as variables."""
    shape = [ROWS, 1 if optimizer.by_row else WIDTH]
    return tf.Variable(values), [tf.Variable(tf.fill(shape, value)) for value in optimizer.slots.values()]


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
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()


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
    with Workers(sys.argv[4:-1], rank, patience=TOKEN_SECONDS) as fewer:
        again = made("adagrad", fewer, rank, workers - 1)
        found["a new group"] = bool(np.all(again.pull(np.arange(again.rows)).rows == start(ROWS)))
        tell(found)


def counted_tables(group: Workers, rank: int, workers: int) -> dict[str, Table]:
    first, last = bounds(workers)[rank : rank + 2]
    return {
        name: Table(
            tf.Variable(tf.zeros([last - first, WIDTH]), name=name), own, where="workers", workers=group
        )
        for name, own in COUNTED.items()
    }


def counted_step(tables: Mapping[str, Table], step: int, streams: Iterable[int]) -> None:
    """Each id of these streams of batches has a gradient of ones: sums are exact, in any order."""
    ids = np.concatenate([ids_of(step, stream) for stream in streams])
    for table in tables.values():
        pulled = table.pull(ids)
        table.push(pulled, tf.ones_like(pulled.rows))


def counted(name: str, steps: int, streams: int) -> dict[str, Any]:
    """A table, and the squares of how often each row came, after so many steps in one process."""
    table, slots = plain(np.zeros((ROWS, WIDTH), np.float32), COUNTED[name])
    for step in range(steps):
        ids = np.concatenate([ids_of(step, stream).ravel() for stream in range(streams)])
        rows, counts = np.unique(ids, return_counts=True)
        gradients = np.repeat(counts[:, None], WIDTH, 1).astype(np.float32)
        COUNTED[name].apply(table, slots, tf.constant(rows, tf.int32), tf.constant(gradients))
    return {"rows": table.numpy(), "accumulator": slots[0].numpy()}


def is_saved(path: Path, steps: int, streams: int) -> bool:
    """Whether a checkpoint has what so many steps make of the tables, in plain variables; and nothing beside it."""
    held = tf.train.load_checkpoint(str(path))
    same = [
        held.get_tensor(f"{name}/{what}/.ATTRIBUTES/VARIABLE_VALUE").tobytes() == one.tobytes()
        for name in COUNTED
        for what, one in counted(name, steps, streams).items()
    ]
    return all(same) and not [file for file in path.parent.iterdir() if ".part" in file.name]


def goes_on_with_fewer(group: Workers, rank: int, workers: int) -> None:
    """The last one dies in mid-step, when the others may have one table's updates; two go on from a checkpoint."""
    folder, found = Path(sys.argv[2]), dict[str, bool]()
    tables = counted_tables(group, rank, workers)
    for step in range(SAVED):
        counted_step(tables, step, [rank])
    group.save(folder / "three", tables)
    found["saved"] = is_saved(folder / "three", SAVED, workers)
    try:
        for step in range(SAVED, LAST):
            if rank == workers - 1 and step == KILLED:
                counted_step({"adagrad": tables["adagrad"]}, step, [rank])
                tables["row_wise"].pull(ids_of(step, rank))
                os.kill(os.getpid(), signal.SIGKILL)
            counted_step(tables, step, [rank])
    except tf.errors.AbortedError as err:
        found["named"] = f"rank {workers - 1} is gone" in str(err) and "those that are left" in str(err)
    group.close()
    with Workers(sys.argv[4:-1], rank, patience=TOKEN_SECONDS, deadline=TOKEN_SECONDS) as fewer:
        again = counted_tables(fewer, rank, workers - 1)
        modules = {name: table.module for name, table in again.items()}
        tf.train.Checkpoint(**modules).read(str(folder / "three")).assert_consumed()
        for step in range(SAVED, LAST):
            counted_step(again, step, range(rank, workers, workers - 1))
        fewer.save(folder / "two", again)
        found["none lost, none twice"] = is_saved(folder / "two", LAST, workers)
        tell(found)


ANY = np.random.default_rng(5).integers(-(2**63), 2**63, 60)
"""Ids."""


def dynamic_table(group: Workers, own_rows: int, *, dynamic: bool = True) -> Table:
    shard = tf.Variable(tf.zeros([own_rows, WIDTH]), name="any")
    any_ids = Dynamic(LFU(), np.zeros) if dynamic else None
    return Table(shard, SGD(1.0), dynamic=any_ids, where="workers", workers=group)


def any_ids_of(step: int, rank: int) -> Any:
    return ANY[np.random.default_rng([9, step, rank]).zipf(1.3, (4, 3)) % len(ANY)]


def any_steps(table: Table, rank: int, steps: Iterable[int]) -> None:
    """Each row becomes minus how often its id came."""
    for step in steps:
        pulled = table.pull(any_ids_of(step, rank))
        table.push(pulled, tf.ones_like(pulled.rows))


def counts_of_any(workers: int, steps: int) -> Counter[int]:
    return Counter(
        number for step in range(steps) for rank in range(workers) for number in any_ids_of(step, rank).flat
    )


def known(table: Table, rank: int) -> dict[int, list[float]]:
    """By id its row, of those whose owner this worker is, read from a plain variable of the whole table's shape."""
    ids, rows = table.ids()
    assert table.whose
    own = table.shards[0].numpy()[rows - table.whose.layout[rank]]
    return dict(zip(ids.tolist(), own.tolist(), strict=True))


def any_ids(group: Workers, rank: int, workers: int) -> None:
    """Rows go to ids as they come; some are evicted; a checkpoint knows whose they are."""
    path, found = f"{sys.argv[2]}/any", dict[str, bool]()
    rows = len(ANY) + 1 + rank
    table = dynamic_table(group, rows)
    any_steps(table, rank, range(SAVED))
    counts = counts_of_any(workers, SAVED)
    held = known(table, rank)
    found["counted"] = held == {number: [-counts[number]] * WIDTH for number in held} and len(held) > 1
    pulled = table.pull(list(counts))
    found["of all"] = pulled.rows.numpy()[:, 0].tolist() == [-count for count in counts.values()]
    best = sorted(held, key=lambda number: (-counts[number] - 1, number))[:KEPT]
    table.evict(KEPT)
    found["kept"] = sorted(table.ids()[0].tolist()) == sorted(best)
    group.save(path, {"any": table})
    saved = tf.train.load_checkpoint(path).get_tensor("any/rows/.ATTRIBUTES/VARIABLE_VALUE")
    found["saved"] = saved[table.ids()[1]].tolist() == [held[number] for number in table.ids()[0].tolist()]
    again = dynamic_table(group, rows)
    tf.train.Checkpoint(any=again.module).read(path).assert_consumed()
    for each in (table, again):
        any_steps(each, rank, range(SAVED, LAST))
    found["goes on"] = known(again, rank) == known(table, rank) != {}
    found["same bits"] = again.shards[0].numpy().tobytes() == table.shards[0].numpy().tobytes()
    other = dynamic_table(group, len(ANY))
    try:
        tf.train.Checkpoint(any=other.module).read(path)
    except TfwaveError as err:
        found["refused"] = "61 and 62 rows on its workers, and this one has 60 and 60 rows" in str(err)
    try:
        dynamic_table(group, rows, dynamic=rank == 0)
    except TfwaveError as err:
        found["alike"] = "dynamic on some workers only" in str(err)
    tell(found)


def one_is_done_first(group: Workers, rank: int, workers: int) -> None:
    """The first one has all of the last step, and leaves, long before the second has what the last one sends it."""
    counts = [0] * workers
    if rank == workers - 1:
        counts[1] = LONG_BYTES
    splits = group.exchange.exchange(tf.zeros([sum(counts)], tf.uint8), counts, "last")
    tell({"all came": len(splits[-1]) == (LONG_BYTES if rank == 1 else 0)})


SCENARIOS: dict[str, Callable[[Workers, int, int], None]] = {
    "same_bits": same_bits,
    "one_dies": one_dies,
    "goes_on_with_fewer": goes_on_with_fewer,
    "any_ids": any_ids,
    "one_is_done_first": one_is_done_first,
}


def main(scenario: str, rank: int, addresses: Sequence[str]) -> None:
    with Workers(addresses, rank, patience=TOKEN_SECONDS, deadline=TOKEN_SECONDS) as group:
        SCENARIOS[scenario](group, rank, len(addresses))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[3]), sys.argv[4:])
