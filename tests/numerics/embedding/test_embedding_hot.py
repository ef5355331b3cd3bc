"""Rows that a worker keeps during a call: the same bits, and each travels once."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.numerics.embedding.embedding_job import OPTIMIZERS, Job, Plain, batches, dataset, row_sets, starts
from tests.numerics.embedding.test_embedding_layouts import columns
from tfwave.embedding import SGD, Table, staged
from tfwave.errors import TfwaveError

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def plain() -> Plain:
    trained = Plain()
    trained.train(batches(16))
    return trained


@pytest.mark.parametrize("hot_bytes", [100, 10**6])
def test_kept_rows_have_the_bits_of_those_on_the_servers(hot_bytes: int, plain: Plain) -> None:
    """Some of them, most, and all that come twice in a call; the servers have the updates, too."""
    job = Job(4, hot_bytes=hot_bytes)
    job.train(batches(16))
    assert job.losses == plain.losses
    assert job.state() == plain.state()


def test_kept_columns_too(plain: Plain) -> None:
    job = Job(4, items=Table(columns(starts()["items"]), OPTIMIZERS["items"]), hot_bytes=300)
    job.train(batches(16))
    assert job.losses == plain.losses
    assert job.state()["users"] == plain.state()["users"]


def test_a_kept_row_is_never_old() -> None:
    """However stale others may be: with room for all, nothing is."""
    job, exact = Job(8, staleness=3, hot_bytes=10**6), Plain()
    job.train(batches(16))
    exact.train(batches(16))
    assert job.losses == exact.losses


def test_a_kept_row_is_read_from_its_server_once_a_call() -> None:
    """So are its slots. What a server sends of the second batch has nothing of the first."""
    table = Table(tf.Variable(np.ones((4, 2), np.float32)), OPTIMIZERS["items"])
    seen: list[Any] = []

    def step(embedded: Any, batch: Any) -> Any:
        return batch, embedded

    data = tf.data.Dataset.from_tensor_slices(({"t": [[0, 1], [1, 2], [2, 0]]}, [1.0, 2.0, 3.0]))
    train = staged(step, {"t": table}, steps=3, hot_bytes=10**6)
    for call in train.calls(data):
        seen += [sets.wanted[0][:5].numpy().tolist() for sets in row_sets(train, call, data.element_spec)]
    assert seen == [[0, 0, 0, 2, 2], [0, 0, 0, 2, 1], [0, 0, 0, 2, 0]]


def test_no_less_than_no_room() -> None:
    with pytest.raises(TfwaveError, match="cannot keep -1 bytes"):
        staged(lambda e, b: (b, e), {"t": Table(tf.Variable([[1.0]]), SGD(1))}, hot_bytes=-1)
    assert next(Job(2).staged.calls(dataset(batches(2)))).steps == 2
