"""The ops of an exchange, in a group of one rank."""

from collections.abc import Iterator

import numpy as np
import pytest
import tensorflow as tf

from tfwave.runtime import native
from tfwave.runtime.all_to_all import Exchange

pytestmark = pytest.mark.tensorflow

ROWS = np.arange(6, dtype=np.float32).reshape(3, 2)
COUNTS = np.array([3])


@pytest.fixture
def alone() -> Iterator[Exchange]:
    exchange = Exchange("alone", 0, 1)
    exchange.form([None], deadline=60)
    yield exchange
    exchange.leave()


def test_its_own_rows_come_back(alone: Exchange) -> None:
    (came,) = alone.exchange(tf.constant(ROWS), tf.constant(COUNTS), "x")
    assert np.array_equal(came, ROWS)


@pytest.mark.parametrize("numbers", [[], [0, 1]])
def test_an_exchange_without_the_number_of_its_step_is_refused(alone: Exchange, numbers: list[int]) -> None:
    ops = native.load_ops()
    step, group = tf.constant(numbers, tf.int64), {"group": alone.name, "tag": "x"}
    with pytest.raises(tf.errors.InvalidArgumentError, match="the number of one step"):
        ops.tfwave_scatter(value=ROWS, counts=COUNTS, step=step, to=[0], **group)
    with pytest.raises(tf.errors.InvalidArgumentError, match="the number of one step"):
        ops.tfwave_collect(step=step, T=tf.float32, ranks=1, row=[2], **group)
    alone.check()
