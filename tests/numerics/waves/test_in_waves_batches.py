"""A step takes its batches in waves as it does alone, whatever its parameters and the batch are."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.numerics.replicas import mirrored
from tfwave.distribute import in_waves, waves

pytestmark = pytest.mark.tensorflow

INPUTS = np.array([[1.0, 2.0], [3.0, 5.0]], np.float32)
WANTED = np.array([[7.0], [9.0]], np.float32)


class Job:
    """A layer without a bias, and its steps by SGD."""

    def __init__(self) -> None:
        self.weight: Any = tf.Variable(tf.ones((2, 1)))

    def update(self, inputs: Any, wanted: Any, scale: Any = 1.0) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(inputs @ self.weight - wanted)) * tf.cast(scale, tf.float32)
        self.weight.assign_sub(0.1 * tape.gradient(loss, self.weight))
        return loss

    def any_number(self, *batch: Any) -> Any:
        return self.update(*batch)

    def by_keyword(self, batch: Any, *, scale: float = 1.0) -> Any:
        return self.update(*batch, scale)

    def rows_alone(self, inputs: Any, scale: float = 1.0) -> Any:
        return self.update(inputs, inputs[:, :1], scale)

    def by_name(self, batch: Any, scale: float = 1.0) -> Any:
        return self.update(batch["inputs"], batch["wanted"], scale)


@pytest.mark.parametrize(
    ("step", "batch", "plain"),
    [
        (Job.any_number, (INPUTS, WANTED), (INPUTS, WANTED)),
        (Job.by_keyword, (INPUTS, WANTED), ((INPUTS, WANTED),)),
        (Job.by_keyword, [INPUTS, WANTED], ([INPUTS, WANTED],)),
        (Job.rows_alone, INPUTS, (INPUTS,)),
        (Job.by_name, {"inputs": INPUTS, "wanted": WANTED}, ({"inputs": INPUTS, "wanted": WANTED},)),
        (Job.update, (INPUTS, WANTED, 0.5), (INPUTS, WANTED, 0.5)),
        (Job.update, (INPUTS, WANTED, 2), (INPUTS, WANTED, 2)),
    ],
)
def test_a_batch_comes_whole_or_in_parts(
    step: Callable[..., Any], batch: Any, plain: tuple[Any, ...]
) -> None:
    """The mean over two waves of one batch is the gradient of that batch."""
    alone, job = Job(), Job()
    wanted = step(alone, *plain)
    strategy = waves(mirrored("/device:CPU:0"), 2, average="batch")
    train = in_waves(step.__get__(job), strategy=strategy)
    assert [float(loss) for loss in train(batch, batch)] == [float(wanted)] * 2
    np.testing.assert_allclose(job.weight.numpy(), alone.weight.numpy(), rtol=1e-6)
