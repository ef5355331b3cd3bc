"""What the batches of a step hold."""

from typing import Any

import numpy as np
import pytest

from tfwave.errors import EnforcerError
from tfwave.runtime.live.batches import bytes_of, kind_of, lengths_of, out_of_pool
from tfwave.runtime.live.instances import SessionInstance
from tfwave.runtime.live.rows import first_rows

pytestmark = pytest.mark.tensorflow


def test_ragged_and_sparse_tensors_hold_what_they_consist_of(tf: Any) -> None:
    ragged = tf.ragged.constant([[1, 2], [3]])  # 3 values of int32, and where 2 rows begin and end, of int64
    sparse = tf.sparse.from_dense(tf.eye(2))  # 2 values of float32, their 2 pairs of indices, and the shape
    assert bytes_of((ragged,)) == 3 * 4 + 3 * 8
    assert bytes_of((sparse,)) == 2 * 4 + 4 * 8 + 2 * 8
    assert bytes_of(({"ragged": ragged, "dense": np.zeros((2, 3))}, 1.0)) == 36 + 48


def test_a_kind_is_told_by_keys_and_by_how_tensors_are_held(tf: Any) -> None:
    dense, ragged = tf.eye(2), tf.ragged.constant([[1.0, 2.0], [3.0]])
    one, two = np.float32(1), np.float32(2)
    batches = (
        (dense, 3),
        ({"a": dense},),
        ({"b": dense},),
        ([dense],),
        (tf.sparse.from_dense(dense),),
        (ragged,),
    )
    assert [kind_of(batch) for batch in batches] == [
        ("float32[2, 2]", "3"),
        ("{'a': float32[2, 2]}",),
        ("{'b': float32[2, 2]}",),
        ("[float32[2, 2]]",),
        ("sparse float32[2, 2]",),
        ("ragged float32[2, None]",),
    ]
    assert kind_of(({"a": one, "b": None},)) == kind_of(({"b": None, "a": two},))


def test_lengths_are_those_of_ragged_and_sparse_tensors(tf: Any) -> None:
    ragged, sparse = tf.ragged.constant([[[1], [2, 3]], []]), tf.sparse.from_dense(tf.eye(4))
    assert lengths_of((tf.eye(2), 3)) == ()
    assert lengths_of(({"ragged": ragged, "sparse": sparse},)) == (3, 2, 2, 4)


def test_the_first_rows_are_those_of_ragged_and_sparse_tensors_too(tf: Any) -> None:
    ragged, sparse = tf.ragged.constant([[1], [2, 3]]), tf.sparse.from_dense(tf.eye(2))
    ((first, second, other),) = first_rows(((ragged, sparse, tf.eye(3)),), 2, 1)
    assert first.to_list() == [[1]]
    assert tf.sparse.to_dense(second).numpy().tolist() == [[1, 0]]
    assert other.shape == (3, 3)


def test_what_a_step_returns_is_copied_out_of_the_pool(tf: Any) -> None:
    dense = tf.eye(2)
    found = out_of_pool({"sparse": tf.sparse.from_dense(dense), "dense": dense, "none": None})
    assert isinstance(found["sparse"], tf.compat.v1.SparseTensorValue)
    assert [part.tolist() for part in found["sparse"]] == [[[0, 0], [1, 1]], [1, 1], [2, 2]]
    assert {type(array) for array in [*found["sparse"], found["dense"]]} == {np.ndarray}
    assert found["none"] is None


def test_a_batch_with_other_parts_than_a_session_is_fed_is_refused(tf: Any) -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        fed = tf.compat.v1.placeholder(tf.float32, [])
        step = SessionInstance(session, 2 * fed, [fed])
        assert step(1.5) == 3
        with pytest.raises(
            EnforcerError, match="a batch has 2 parts, and its step feeds 1 tensors: give Sess"
        ):
            step(1.5, 2.5)
