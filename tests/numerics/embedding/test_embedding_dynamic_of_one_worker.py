"""A dynamic table on workers, in a group of one.

Whose ids are whose, and checkpoints, are in tests/cluster/embedding/test_embedding_on_workers.py.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.numerics.embedding.test_embedding_dynamic import halves
from tfwave.embedding import LFU, SGD, Dynamic, RowWiseAdagrad, Score, Table, Workers
from tfwave.errors import TfwaveError

pytestmark = pytest.mark.tensorflow

FAR = 2**62
"""An id, as hashes are."""


def made(group: Workers, optimizer: Any = None, policy: Any = None, **options: Any) -> Table:
    """Of three rows, and the shared one."""
    dynamic = Dynamic(policy or LFU(), halves, **options)
    shard = tf.Variable(tf.zeros([4, 2]), name="any")
    return Table(shard, optimizer or SGD(1.0), dynamic=dynamic, where="workers", workers=group)


def one_step(table: Table, ids: Any, positive: Any = None) -> None:
    pulled = table.pull(ids, positive)
    table.push(pulled, tf.ones_like(pulled.rows))


@pytest.mark.parametrize("wrapped", [lambda function: function, tf.function])
def test_ids_get_rows_as_they_come_and_others_share_the_last(alone: Workers, wrapped: Any) -> None:
    table = made(alone)
    step = wrapped(lambda ids: one_step(table, ids))
    step(tf.constant([[FAR, -FAR], [FAR, 7]]))
    step(tf.constant([[8, 9], [FAR, 8]]))
    assert dict(zip(*(part.tolist() for part in table.ids()), strict=True)) == {FAR: 0, -FAR: 1, 7: 2}
    assert table.shards[0].numpy()[:, 0].tolist() == [-3, -1, -1, -3]


def test_an_id_is_admitted_when_it_has_come_often_enough_and_a_batch_may_have_none(alone: Workers) -> None:
    table = made(alone, admit=3)
    for ids in ([5], [], [5, 6], [5, 6]):
        one_step(table, np.array(ids, np.int64))
    assert table.ids()[0].tolist() == [5]
    assert table.shards[0].numpy()[:, 1].tolist() == [-1, 0, 0, -4]


def test_a_row_that_is_freed_begins_anew_with_its_accumulator(alone: Workers) -> None:
    table = made(alone, RowWiseAdagrad(0.1, initial_accumulator=0.25))
    one_step(table, [7, 7, 8])
    assert table.evict(1) == 1
    assert table.ids()[0].tolist() == [7]
    assert table.shards[0].numpy()[1].tolist() == [0.5, 0.5]
    assert table.slots[0][0].numpy().ravel().tolist() == [4.25, 0.25, 0.25, 0.25]


@pytest.mark.parametrize("positive", [[False, True], [[0.0], [1.0]], np.array([0, 1])])
def test_ids_of_positive_samples_are_worth_more(alone: Workers, positive: Any) -> None:
    table = made(alone, policy=Score(0.5, positive=10.0))
    one_step(table, [[7, 7], [7, 8]], positive)
    one_step(table, [[9, 9], [9, 9]])
    table.evict(2)
    assert table.ids()[0].tolist() == [7, 8]


def test_positive_samples_of_another_batch_are_refused(alone: Workers) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="table 'any': give one number for each sample"):
        made(alone).pull([[7, 7], [8, 9]], [1, 0, 1, 1])


def test_what_is_positive_is_for_dynamic_tables_and_told_in_one_way(alone: Workers) -> None:
    plain = Table(tf.Variable(tf.zeros([4, 2]), name="p"), SGD(1.0), where="workers", workers=alone)
    with pytest.raises(TfwaveError, match="table 'p' keeps all rows, whatever is positive"):
        plain.pull([0, 1], [0, 1])
    with pytest.raises(TfwaveError, match=r"says itself what is positive: give it to pull\(ids, positive\)"):
        made(alone, positive=lambda batch: batch)


def test_a_checkpoint_of_a_table_on_servers_is_not_for_workers(alone: Workers, tmp_path: Path) -> None:
    ours, theirs = made(alone), Table(tf.Variable(tf.zeros([4, 2])), SGD(1), dynamic=Dynamic(LFU(), halves))
    for name, one in (("ours", ours), ("theirs", theirs)):
        tf.train.Checkpoint(t=one.module).write(str(tmp_path / name))
    with pytest.raises(TfwaveError, match="with its rows on servers, and this one has 4 rows on its workers"):
        tf.train.Checkpoint(t=ours.module).read(str(tmp_path / "theirs"))
    with pytest.raises(TfwaveError, match="of a table on workers, and this one is on servers"):
        tf.train.Checkpoint(t=theirs.module).read(str(tmp_path / "ours"))
