"""Tables of fewer rows than ids: each id's row is as if it had one of its own from the beginning."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.numerics.embedding.embedding_job import OPTIMIZERS, Job, Plain, batches
from tests.numerics.embedding.test_embedding_layouts import on, rows
from tfwave.embedding import LFU, SGD, Dynamic, Score, Table
from tfwave.errors import TfwaveError

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(180)]

CAPACITY, KEPT, SHARED = 8, 5, 39
"""The last is the row of `Plain` that stands for the shared one. Items are of 12 ids, so that some find no row."""


def halves(shape: Any) -> Any:
    return np.full(shape, 0.5, np.float32)


def by_columns(value: Any) -> Any:
    return [on("CPU:1", value[:, :3]), on("CPU:2", value[:, 3:])]


def dynamic_job(cut: Any = rows) -> Job:
    variable = cut(halves((CAPACITY + 1, 4)))
    return Job(3, items=Table(variable, OPTIMIZERS["items"], dynamic=Dynamic(LFU(), halves)))


class WithAll:
    """`Plain`, in which each id has its row; those without one, by an own count, are sent to a shared row."""

    def __init__(self) -> None:
        self.plain = Plain()
        self.plain.tables["items"].assign(halves((40, 4)))
        self.counts: Counter[int] = Counter()

    def train(self, found: Any) -> None:
        for ids, batch in found:
            items = Counter(ids["items"].tolist())
            new = sorted((i for i in items if i not in self.counts), key=lambda i: (-items[i], i))
            known = [*self.counts, *new[: CAPACITY - len(self.counts)]]
            self.counts = Counter({i: self.counts[i] + items[i] for i in known})
            mapped = np.array([i if i in self.counts else SHARED for i in ids["items"].tolist()], np.int32)
            self.plain.train([(ids | {"items": mapped}, batch)])

    def evict(self) -> int:
        worst = sorted(self.counts, key=lambda i: (self.counts[i], -i))[: max(0, len(self.counts) - KEPT)]
        for some in worst:
            del self.counts[some]
            self.plain.tables["items"].scatter_nd_update([[some]], halves((1, 4)))
            self.plain.slots["items"].scatter_nd_update([[some]], [[0.1] * 4])
        return len(worst)


def assert_same(job: Job, model: WithAll) -> None:
    table = job.tables["items"]
    assert job.losses == model.plain.losses
    ids, own = table.ids()
    assert sorted(ids.tolist()) == sorted(model.counts)
    axis = int(table.by_columns)
    held = np.concatenate([shard.numpy() for shard in table.shards], axis)
    slots = np.concatenate([shard[0].numpy() for shard in table.slots], axis)
    for i, row in [*zip(ids, own, strict=True), (SHARED, CAPACITY)]:
        assert held[row].tobytes() == model.plain.tables["items"][i].numpy().tobytes()
        assert slots[row].tobytes() == model.plain.slots["items"][i].numpy().tobytes()


@pytest.mark.parametrize("cut", [rows, by_columns])
def test_ids_that_share_few_rows_have_the_bits_of_rows_of_their_own(cut: Any) -> None:
    """Admitted as they come, evicted between calls."""
    job, model = dynamic_job(cut), WithAll()
    for k in range(5):
        found = batches(12, seed=k)
        job.train(found)
        model.train(found)
        assert_same(job, model)
        assert job.tables["items"].evict(KEPT) == model.evict() > 0
        assert_same(job, model)


def test_a_checkpoint_knows_whose_the_rows_are(tmp_path: Path) -> None:
    whole, first, second = dynamic_job(), dynamic_job(), dynamic_job()
    found = batches(24)

    def checkpoint(job: Job) -> Any:
        tables = {name: table.module for name, table in job.tables.items()}
        return tf.train.Checkpoint(weight=job.weight, **tables)

    for job in (whole, first):
        job.train(found[:12])
        job.tables["items"].evict(KEPT)
    saved = checkpoint(first).save(str(tmp_path / "kept"))
    checkpoint(second).restore(saved).assert_consumed()
    for job in (whole, second):
        job.train(found[12:])
    assert whole.losses == first.losses + second.losses
    assert whole.state() == second.state()
    assert [ids.tolist() for ids in whole.tables["items"].ids()] == [
        ids.tolist() for ids in second.tables["items"].ids()
    ]


def test_an_export_looks_ids_up_by_stock_means(tmp_path: Path) -> None:
    job = dynamic_job()
    job.train(batches(8))
    table = job.tables["items"]
    ids, own = table.ids()
    exported = tf.Module()
    exported.items = table.module.rows
    exported.index = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(ids, own), CAPACITY)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64)])
    def look_up(some: Any) -> Any:
        return tf.nn.embedding_lookup(exported.items, exported.index.lookup(some))

    exported.look_up = look_up
    tf.saved_model.save(exported, str(tmp_path))
    held = np.concatenate([shard.numpy() for shard in table.shards])
    asked = np.array([*ids, 10**15])
    loaded = tf.saved_model.load(str(tmp_path))
    found = loaded.look_up(asked).numpy()
    assert found.tobytes() == held[[*own, CAPACITY]].tobytes()


def test_clicks_make_a_row_worth_more() -> None:
    policy = Score(0.5, positive=8.0)
    table = Table(
        tf.Variable(tf.zeros([4, 1])),
        SGD(1),
        dynamic=Dynamic(policy, np.zeros, positive=lambda batch: batch[0]),
    )
    table.numbers(np.array([[7, 7], [8, 9]]), ([0, 1],))
    table.evict(2)
    assert sorted(table.ids()[0].tolist()) == [8, 9]


def test_no_id_gets_a_row_that_could_not_begin_anew() -> None:
    """An initializer that raises frees none; called again, it has them all begun anew first."""
    broken = iter([True, False])

    def initial(shape: Any) -> Any:
        if next(broken):
            raise ZeroDivisionError
        return halves(shape)

    table = Table(tf.Variable(tf.ones([4, 1])), SGD(1), dynamic=Dynamic(LFU(), initial))
    table.numbers(np.array([7, 7, 8, 9]), None)
    with pytest.raises(ZeroDivisionError):
        table.evict(1)
    assert table.ids()[0].tolist() == [7, 8, 9]
    assert table.evict(1) == 2
    assert table.ids()[0].tolist() == [7]
    assert table.shards[0].numpy().ravel().tolist() == [1, 0.5, 0.5, 1]


def test_only_a_dynamic_table_evicts() -> None:
    with pytest.raises(TfwaveError, match="a row for each of its ids: give it dynamic"):
        Table(tf.Variable(tf.zeros([4, 1])), SGD(1)).evict(2)
