"""A table on workers, in a group of one: what it takes, and what it refuses.

Bits, and what is left when a worker dies, are in tests/cluster/embedding/test_embedding_on_workers.py.
"""

import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfwave.embedding import SGD, Adagrad, RowWiseAdagrad, Table, Workers
from tfwave.errors import TfwaveError

pytestmark = pytest.mark.tensorflow

START = np.arange(8, dtype=np.float32).reshape(4, 2)


def made(group: Workers, optimizer: Any = None) -> Table:
    return Table(tf.Variable(START, name="t"), optimizer or SGD(0.5), where="workers", workers=group)


@pytest.mark.parametrize("optimizer", [SGD(0.5), Adagrad(0.5)])
def test_gradients_in_half_precision_are_numbers_of_the_table(alone: Workers, optimizer: Any) -> None:
    """Of another type they would end the process."""
    whole, half = made(alone, optimizer), made(alone, optimizer)

    @tf.function
    def step(table: Table, kind: Any) -> None:
        pulled = table.pull([3, 1, 3])
        table.push(pulled, tf.cast(pulled.rows, kind))

    graph = step.get_concrete_function(half, tf.float16).graph
    sums = [op.inputs[0].dtype for op in graph.get_operations() if op.type == "UnsortedSegmentSum"]
    assert set(sums) == {tf.float32}
    step(whole, tf.float32)
    step(half, tf.float16)
    assert half.shards[0].numpy().tobytes() == whole.shards[0].numpy().tobytes() != START.tobytes()


@pytest.mark.parametrize("kind", [SGD, RowWiseAdagrad])
def test_a_rate_that_changes_is_that_of_each_push(alone: Workers, kind: Any) -> None:
    rate = tf.Variable(0.0)
    table = made(alone, kind(lambda: rate))

    @tf.function
    def step() -> None:
        pulled = table.pull([3, 1])
        table.push(pulled, pulled.rows)

    step()
    assert table.shards[0].numpy().tobytes() == START.tobytes()
    rate.assign(0.5)
    step()
    assert table.shards[0].numpy()[3, 0] < START[3, 0]


def test_a_checkpoint_goes_where_its_url_says(
    alone: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not into a folder of that name on this machine."""
    monkeypatch.chdir(tmp_path)
    table = made(alone)
    alone.save("ram://tables/first", {"t": table})
    table.shards[0].assign(-START)
    tf.train.Checkpoint(t=table.module).read("ram://tables/first").assert_consumed()
    assert table.shards[0].numpy().tobytes() == START.tobytes()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("ids", "what"),
    [
        (lambda: [1.7, 2.0], "float32"),
        (lambda: np.array([2.0]), "float64"),
        (lambda: tf.ragged.constant([[1], [2, 3]]), "RaggedTensor"),
        (lambda: tf.sparse.from_dense([[1, 0], [2, 3]]), "SparseTensor"),
    ],
)
def test_ids_that_are_no_tensor_of_integers_are_refused(alone: Workers, ids: Any, what: str) -> None:
    """And not rounded down to those of other rows."""
    with pytest.raises(TfwaveError, match=f"ids for table 't' are {what}, and must be a tensor of integers"):
        made(alone).pull(ids())


@pytest.mark.parametrize("ids", [[], 3, [[1, 2]], np.zeros((2, 0), np.uint8)])
def test_ids_may_be_of_any_shape(alone: Workers, ids: Any) -> None:
    assert made(alone).pull(ids).rows.numpy().tolist() == START[np.array(ids, int)].tolist()


def test_gradients_that_are_none_of_the_rows_are_refused(alone: Workers) -> None:
    table = made(alone)
    pulled = table.pull([0, 1, 3])
    with pytest.raises(TfwaveError, match=r"depend on the rows of table 't': call tape\.watch"):
        table.push(pulled, None)
    with pytest.raises(TfwaveError, match=r"has shape \(2, 3\), and its rows have \(3, 2\)"):
        table.push(pulled, tf.transpose(pulled.rows))


class Seen:
    """Tells where the code of an update is."""

    slots: dict[str, float]
    by_row = False

    def __init__(self) -> None:
        self.slots, self.files = {}, list[str]()

    def apply(self, *_: Any) -> None:
        self.files.append(traceback.extract_stack()[-1].filename)


def test_autograph_leaves_pull_and_push_as_they_are(alone: Workers) -> None:
    """It would convert all that they call at each trace, and warn of what it cannot."""
    seen = Seen()
    table = made(alone, seen)

    @tf.function
    def step() -> None:
        pulled = table.pull([0])
        table.push(pulled, pulled.rows)

    step()
    assert seen.files == [__file__]
