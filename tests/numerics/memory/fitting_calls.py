"""Steps as programs call and write them, in a pool that has room; prints what came out.

python -m tests.numerics.memory.fitting_calls
"""

import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from tfwave.colocate import limit_memory

limit_memory("64MiB")

import tensorflow as tf  # noqa: E402

from tfwave import fit_memory  # noqa: E402
from tfwave.errors import TfwaveError  # noqa: E402

WIDTH, ROWS, SAMPLE = 8, 6, 4


class Function:
    """A step of one weight, as a `tf.function`."""

    def __init__(self, given: Callable[[Any], Any] = tf.identity) -> None:
        self.weight = tf.Variable(tf.ones([WIDTH, WIDTH]))
        self._given = given
        self.step = tf.function(self._step)

    def _step(self, batch: Any, rate: float = 0.5, *, training: bool = True) -> Any:
        with tf.GradientTape() as tape:
            hidden = tf.nn.tanh(self._given(batch) @ self.weight)
            loss = tf.reduce_sum(hidden * hidden)
        if training:
            gradient: Any = tape.gradient(loss, self.weight)
            self.weight.assign_sub(rate * gradient)
        return loss

    def values(self, call: Callable[..., Any], *batch: Any, **named: Any) -> list[str]:
        """What two steps return and leave."""
        losses = [call(*batch, **named).numpy().tobytes() for _ in range(2)]
        return [value.hex() for value in (*losses, self.weight.numpy().tobytes())]


def same(given: Callable[[Any], Any], *batch: Any, **named: Any) -> bool:
    plain, fitted = Function(given), Function(given)
    step = fit_memory(fitted.step, sample_rows=SAMPLE)
    return fitted.values(step, *batch, **named) == plain.values(plain.step, *batch, **named)


def said(call: Callable[[], object]) -> str:
    try:
        call()
    except (TfwaveError, TypeError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def full(_: np.ndarray) -> np.ndarray:
    """TensorFlow makes of it what it makes of a pool that has run out, without the wait of ten seconds."""
    raise MemoryError


def in_full_pool(batch: Any) -> Any:
    return tf.ensure_shape(tf.numpy_function(full, [batch], tf.float32), batch.shape)


def main() -> None:
    batch = np.random.default_rng(1).standard_normal((ROWS, WIDTH), np.float32)
    found = {
        "same": {
            "named": same(tf.identity, batch=batch, rate=0.25),
            "empty": same(tf.identity, batch[:0]),
            "sparse": same(tf.sparse.to_dense, tf.sparse.from_dense(batch)),
        },
        "said": {
            "by name alone": said(lambda: fit_memory(Function().step)(batch, training=True)),
            "no such name": said(lambda: fit_memory(Function().step)(batch, speed=1)),
            "full": said(lambda: fit_memory(Function(in_full_pool).step)(batch)),
        },
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
