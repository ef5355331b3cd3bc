"""A function in a pool that it would not keep to, against itself in a process that has room; prints what came out.

python -m tests.numerics.memory.fitting_job plain|fitted
"""

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tfwave.colocate import limit_memory

ROOM = {"plain": "256MiB", "fitted": "64MiB"}
limit_memory(ROOM[sys.argv[1]])

import tensorflow as tf  # noqa: E402

from tests.numerics.memory.cheap_copies import let_copies_cost_nothing  # noqa: E402
from tfwave import fit_memory  # noqa: E402
from tfwave.errors import EnforcerError, PlanError  # noqa: E402
from tfwave.runtime.stash import stash_figures  # noqa: E402

WIDTH, LAYERS, ROWS, SAMPLE, STEPS = 128, 10, 4096, 512, 12


class Trained:
    """Layers with a residual, trained with momentum; a batch that is not a number ends its step half way."""

    def __init__(self) -> None:
        generator = np.random.default_rng(1)
        self.weights = [
            tf.Variable(generator.standard_normal((WIDTH, WIDTH), np.float32) * 0.05) for _ in range(LAYERS)
        ]
        self.slots = [tf.Variable(tf.zeros([WIDTH, WIDTH])) for _ in range(LAYERS)]
        self.count = tf.Variable(0)  # that nothing reads
        self.step = tf.function(self._step)

    def _step(self, batch: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            hidden = batch
            for weight in self.weights:
                hidden = tf.nn.gelu(hidden @ weight) + hidden
            loss = tf.debugging.check_numerics(tf.reduce_mean(hidden * hidden), "no number")
        self.count.assign_add(1)
        gradients = tape.gradient(loss, self.weights)
        for weight, slot, gradient in zip(self.weights, self.slots, gradients, strict=True):
            moved = 0.9 * slot + gradient
            slot.assign(moved)
            weight.assign_sub(0.01 * moved)
        return loss

    def variables(self) -> list[tf.Variable]:
        return [*self.weights, *self.slots, self.count]

    def values(self) -> list[np.ndarray]:
        return [variable.numpy() for variable in self.variables()]


def batches(count: int, rows: int) -> Iterator[tf.Tensor]:
    generator = np.random.default_rng(2)
    for _ in range(count):
        yield tf.constant(generator.standard_normal((rows, WIDTH), np.float32))


def trained(job: Trained, step: Callable[[tf.Tensor], tf.Tensor]) -> dict[str, Any]:
    """A step that fails after half of the others, and two shapes of batches."""
    losses = [float(step(batch)).hex() for batch in batches(STEPS // 2, ROWS)]
    before = job.values()
    failed = ""
    try:
        step(tf.fill([ROWS, WIDTH], np.float32("nan")))
    except tf.errors.InvalidArgumentError as error:
        failed = error.message
    for variable, value in zip(job.variables(), before, strict=True):
        variable.assign(value)
    for rows in (ROWS, ROWS // 2):
        losses += [float(step(batch)).hex() for batch in batches(STEPS // 4, rows)]
    return {
        "losses": losses,
        "failed": "no number" in failed,
        "values": [value.tobytes().hex()[:4096] for value in job.values()],
        "sums": [float(np.sum(value, dtype=np.float64)).hex() for value in job.values()],
    }


def said(call: Callable[[], object]) -> str:
    try:
        call()
    except (PlanError, EnforcerError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def without_optimizer(call: Callable[[], str]) -> str:
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    try:
        return call()
    finally:
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False})


def summed(values: Callable[[Any], Any]) -> Any:
    """A step that trains nothing, and gives the sum of some values of its batch."""
    weight = tf.Variable(1.0)

    @tf.function
    def step(batch: Any) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(weight * values(batch))
        weight.assign_sub(0.0 * tape.gradient(loss, weight))
        return loss

    return step


def fitted_kinds() -> tuple[list[tuple[str, ...]], list[float]]:
    """Of which batches a step is planned by itself, and what it gives for them."""

    def only(batch: dict[str, Any]) -> Any:
        (values,) = batch.values()
        return getattr(values, "flat_values", values)

    fitted = fit_memory(summed(only))
    ragged = [tf.RaggedTensor.from_row_lengths(tf.ones([n]), [n - 1, 1]) for n in (50, 400, 30)]
    dense = [{"one": tf.ones([2, 3])}, {"other": tf.ones([2, 3])}]
    given = [fitted(batch) for batch in [*dense, *({"ragged": one} for one in ragged)]]
    return sorted(fitted.plans), [float(loss) for loss in given]


def main() -> None:
    let_copies_cost_nothing()
    job = Trained()
    if sys.argv[1] == "plain":
        found = trained(job, job.step)
        peak = tf.config.experimental.get_memory_info("CPU:0")["peak"]
        json.dump(found | {"peak": peak}, sys.stdout)
        return
    (large,) = batches(1, ROWS)
    start = job.values()
    refusals = {
        "small": said(lambda: fit_memory(job.step, "8MiB", sample_rows=SAMPLE)(large)),
        "large": said(lambda: fit_memory(job.step, "1GiB")),
        "eager": said(lambda: fit_memory(job._step)),
        "rows": said(lambda: fit_memory(job.step, sample_rows=0)),
        "optimizer": without_optimizer(lambda: said(lambda: fit_memory(job.step, sample_rows=SAMPLE)(large))),
    }
    kept = all(np.array_equal(old, new) for old, new in zip(start, job.values(), strict=True))
    fitted = fit_memory(job.step, sample_rows=SAMPLE)
    found = trained(job, fitted)
    figures, plans = stash_figures(), [plan.memory for plan in fitted.plans.values()]
    found |= {
        "refusals": refusals,
        "kept": kept,
        "left": [figures.tensors, figures.held_bytes],
        "moved": [figures.out.bytes, figures.back.bytes],
        "away": [len(memory.tensors) for memory in plans if memory],
        "names": sorted(fitted.plans),
        "kinds": fitted_kinds(),
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
