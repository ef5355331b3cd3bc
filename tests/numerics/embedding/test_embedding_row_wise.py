"""Row-wise Adagrad: one accumulator a row, for tables that one process updates."""

import pytest
import tensorflow as tf

from tfwave.embedding import RowWiseAdagrad, Table
from tfwave.errors import TfwaveError

pytestmark = pytest.mark.tensorflow


def test_an_update_is_that_of_the_formula() -> None:
    """Of numbers that float32 holds."""
    table, accumulator = tf.Variable(tf.ones([3, 2])), tf.Variable(tf.zeros([3, 1]))
    optimizer = RowWiseAdagrad(1.0, 0.0, 0.0)
    optimizer.apply(table, [accumulator], tf.constant([2, 0]), tf.constant([[2.0, -2.0], [4.0, 4.0]]))
    assert table.numpy().tolist() == [[0, 0], [1, 1], [0, 2]]
    assert accumulator.numpy().tolist() == [[16], [0], [4]]
    optimizer.apply(table, [accumulator], tf.constant([2]), tf.constant([[2.0, 6.0]]))
    assert accumulator.numpy().tolist() == [[16], [0], [24]]


def test_on_servers_it_is_refused_with_the_way_out() -> None:
    with pytest.raises(TfwaveError, match=r"RowWiseAdagrad updates a row by several ops.*use Adagrad"):
        Table(tf.Variable(tf.zeros([3, 2])), RowWiseAdagrad(0.1))
