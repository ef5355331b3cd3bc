"""Staged steps on tables that lie whole, by rows or by columns: the same bits, and the same checkpoints."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.numerics.embedding.embedding_job import (
    OPTIMIZERS,
    Job,
    Plain,
    ShardedVariable,
    batches,
    dataset,
    starts,
)
from tfwave.embedding import SGD, Table
from tfwave.errors import TfwaveError

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(180)]


def on(device: str, value: Any) -> Any:
    with tf.device(device):
        return tf.Variable(value)


def whole(value: Any) -> Any:
    return on("CPU:1", value)


def rows(value: Any) -> Any:
    return ShardedVariable([on("CPU:2", value[:7]), on("CPU:1", value[7:])], name="items")


def columns(value: Any) -> Any:
    """The second and third are as wide as no other table."""
    return [on("CPU:2", value[:, :2]), on("CPU:1", value[:, 2:3]), on("CPU:2", value[:, 3:])]


LAYOUTS = {"whole": whole, "rows": rows, "columns": columns}


@pytest.fixture(scope="module")
def plain() -> Plain:
    trained = Plain()
    trained.train(batches(24))
    return trained


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_table_has_the_same_bits_however_it_lies(layout: str, plain: Plain, tmp_path: Path) -> None:
    """Also in a checkpoint, in which it is one plain variable, and so are its slots."""
    job = Job(4, items=Table(LAYOUTS[layout](starts()["items"]), OPTIMIZERS["items"]))
    job.train(batches(24))
    assert job.losses == plain.losses
    assert {job.state()[name] == plain.state()[name] for name in ("weight", "users", "words")} == {True}
    table = job.tables["items"]
    assert (table.rows, table.width) == (40, 4)
    saved = tf.train.Checkpoint(items=table.module).save(str(tmp_path / "kept"))
    read = tf.Module()
    read.rows, read.accumulator = tf.Variable(tf.zeros([40, 4])), tf.Variable(tf.zeros([40, 4]))
    tf.train.Checkpoint(items=read).restore(saved).assert_consumed()
    assert read.rows.numpy().tobytes() == plain.state()["items"]
    assert read.accumulator.numpy().tobytes() == plain.state()["items slot"]
    other = Table(columns(np.zeros((40, 4), np.float32)), OPTIMIZERS["items"])
    tf.train.Checkpoint(items=other.module).restore(saved).assert_consumed()
    assert np.concatenate(other.shards, 1).tobytes() == plain.state()["items"]


def test_a_row_is_locked_while_it_is_updated() -> None:
    """Without its lock TensorFlow loses some of the updates that two workers make at once."""
    job = Job(2)
    call = next(job.staged.calls(dataset(batches(2))))
    operations = call.function.get_concrete_function(*call.args).graph.get_operations()
    kinds = {op.type: op for op in operations if op.type.startswith("Resource")}
    updating = {"ResourceScatterNdSub", "ResourceSparseApplyAdagradV2"}
    assert kinds.keys() == updating | {"ResourceGather", "ResourceScatterMax"}  # the last notes a push
    assert kinds["ResourceSparseApplyAdagradV2"].get_attr("use_locking")


def test_columns_of_unlike_lengths_are_refused() -> None:
    with pytest.raises(TfwaveError, match="the columns of a table have 2 and 3 rows"):
        Table([tf.Variable(tf.ones([2, 1])), tf.Variable(tf.ones([3, 1]))], SGD(1))
    with pytest.raises(TfwaveError, match="a table of no columns"):
        Table([], SGD(1))
