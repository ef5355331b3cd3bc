"""What a bundle of a session's step says that was fetched."""

from pathlib import Path
from typing import Any

import pytest

from tfwave.capture.session import capture_run

pytestmark = pytest.mark.tensorflow


def test_ragged_and_sparse_fetches_are_the_tensors_that_they_consist_of(tf: Any, tmp_path: Path) -> None:
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        values = tf.compat.v1.placeholder(tf.float32, [3], name="values")
        ragged = tf.RaggedTensor.from_row_lengths(values + 1, [1, 2])
        fetches = {"sum": tf.reduce_sum(values), "ragged": ragged, "sparse": ragged.to_sparse()}
        bundle = capture_run(
            session, fetches, {values: [1, 2, 3]}, out=tmp_path / "bundle", steps=1, warmup=0
        )
    assert len(bundle.manifest.fetches) == 2 + 3 + 1
    for name in bundle.manifest.fetches:
        graph.get_tensor_by_name(name)
    assert bundle.own is not None
