"""What the batches of a step hold."""

from typing import Any

import numpy as np
import pytest

from tfwave.errors import EnforcerError
from tfwave.runtime.live.batches import bytes_of
from tfwave.runtime.live.instances import SessionInstance

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def tf() -> Any:
    return __import__("tensorflow")


def test_ragged_and_sparse_tensors_hold_what_they_consist_of(tf: Any) -> None:
    ragged = tf.ragged.constant([[1, 2], [3]])  # 3 values of int32, and where 2 rows begin and end, of int64
    sparse = tf.sparse.from_dense(tf.eye(2))  # 2 values of float32, their 2 pairs of indices, and the shape
    assert bytes_of((ragged,)) == 3 * 4 + 3 * 8
    assert bytes_of((sparse,)) == 2 * 4 + 4 * 8 + 2 * 8
    assert bytes_of(({"ragged": ragged, "dense": np.zeros((2, 3))}, 1.0)) == 36 + 48


def test_a_batch_with_other_parts_than_a_session_is_fed_is_refused(tf: Any) -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        fed = tf.compat.v1.placeholder(tf.float32, [])
        step = SessionInstance(session, 2 * fed, [fed])
        assert step(1.5) == 3
        with pytest.raises(
            EnforcerError, match="a batch has 2 parts, and its step feeds 1 tensors: give Sess"
        ):
            step(1.5, 2.5)
