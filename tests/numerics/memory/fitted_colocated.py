"""Jobs in a limited pool, one of which has no room beside the other as it is; prints what came out.

A process of its own, as the pool is there once for all that it runs.
"""

import os
import sys

os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"

import gc
import json
from collections.abc import Iterator, Sequence
from typing import Any

from tests.numerics.colocate.colocated_jobs import batches, forget_peak, losses, peak

STEPS, LAST = 12, 4
"""The first four are made as they are, the next four as they are made to fit, alone both."""
ROWS = {"large": 2048, "small": 256}

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

from tests.numerics.colocate.colocated_jobs import weights  # noqa: E402
from tfwave.colocate import Job, run  # noqa: E402
from tfwave.runtime.pool import pool_in_use  # noqa: E402
from tfwave.runtime.stash import stash_figures  # noqa: E402


class Trained:
    """Layers with a residual."""

    def __init__(self, seed: int) -> None:
        self.variables: Any = [tf.Variable(tf.constant(value)) for value in weights(seed)]
        self.step = tf.function(self._step)

    def _step(self, batch: Any) -> Any:
        with tf.GradientTape() as tape:
            hidden = batch
            for variable in self.variables:
                hidden = tf.nn.relu(hidden @ variable) + hidden
            loss = tf.reduce_mean(hidden * hidden)
        gradients: Any = tape.gradient(loss, self.variables)
        for variable, gradient in zip(self.variables, gradients, strict=True):
            variable.assign_sub(0.05 * gradient)
        return loss

    def alone(self, data: Sequence[np.ndarray]) -> list[str]:
        return losses([self.step(tf.constant(batch)).numpy() for batch in data])


def given(data: Sequence[np.ndarray], before_last: int) -> Iterator[np.ndarray]:
    """The peak is that of the last steps."""
    yield from data[:-before_last]
    forget_peak()
    yield from data[-before_last:]


def beside(most: float | None, limit: int, data: dict[str, list[np.ndarray]]) -> dict[str, Any]:
    """Both jobs, where the large one allows that its step comes slower."""
    jobs = {name: Trained(number) for number, name in enumerate(ROWS)}
    within = pool_in_use() + limit
    results = run(
        [
            Job("large", jobs["large"].step, given(data["large"], LAST), fit_slowed_at_most=most),
            Job("small", jobs["small"].step, data["small"], priority=1),
        ],
        within,
    )
    return {
        "steps": {name: result.steps for name, result in results.items()},
        "errors": {name: str(result.error or "") for name, result in results.items()},
        "losses": {name: losses(result.values) for name, result in results.items()},
        "moved": stash_figures().back.bytes,
        "peak": peak(),
        "limit": within,
    }


def main(limit: int) -> None:
    data = {name: batches(number, STEPS, rows) for number, (name, rows) in enumerate(ROWS.items())}
    alone = {name: Trained(number).alone(data[name]) for number, name in enumerate(ROWS)}
    gc.collect()
    found = {name: beside(most, limit, data) for name, most in (("refused", None), ("fitted", 9.0))}
    json.dump(found | {"alone": alone, "left": stash_figures().tensors}, sys.stdout)


if __name__ == "__main__":
    main(int(sys.argv[1]) << 20)
