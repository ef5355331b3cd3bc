"""What weights move by when they get what other groups of workers did."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfwave.runtime.reduced_gradients import Kind, function_of_rows

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize("kind", [tf.Variable, keras.Variable])
def test_rows_that_are_no_gradients_are_added_as_they_are(kind: Any) -> None:
    """One after the other with gradients, in the order in which they come."""
    weights, other = kind(np.array([[1.0, 2.0]], "f")), kind(np.array([8.0], "f"))

    def halve_and_apply(grads: Any) -> None:
        weights.assign((weights - grads[0]) / 2)
        other.assign((other - grads[1]) / 2)

    apply = function_of_rows([weights, other], [Kind.DENSE] * 2, halve_and_apply, moves=True)
    rows = np.array([[1, 0, 2], [10, 20, 30], [0, 1, 1]], "f")
    apply(rows, [False, True, False])
    assert np.asarray(weights).tolist() == [[(0 + 10) / 2, (1 + 20 - 1) / 2]]
    assert np.asarray(other).tolist() == [(3 + 30 - 1) / 2]
