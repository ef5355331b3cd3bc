"""The process of a trial with `tf.recompute_grad` around each block of a model, in a `tf.function`; else as
`limited_task`: {"do": "compile", "model": str, "batch": int} makes the step that "run" runs.

In a graph of TensorFlow 1 it saves nothing; here the gradients wait for what is computed again.
"""

from typing import Any

from tools.bench.memory.limited_models import LEARNING_RATE, MODELS, MOMENTUM, Making, Recomputed
from tools.bench.memory.limited_task import Trial, main

MODULE = "tools.bench.memory.recompute_task"
SMALL = 2
"""A batch for which a model makes its variables: they are the same for all."""


class RecomputedTrial(Trial):
    """A function in place of a session."""

    def compile(self, model: str, batch: int) -> dict[str, object]:
        tf, making = self._tf, Making(SMALL)
        MODELS[model](making)
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
        optimizer = tf.compat.v1.train.MomentumOptimizer(LEARNING_RATE, MOMENTUM)

        @tf.function(autograph=False)
        def step() -> Any:
            with tf.GradientTape() as tape:
                loss = MODELS[model](Recomputed(batch, making.made))
            optimizer.apply_gradients(zip(tape.gradient(loss, making.made), making.made, strict=True))
            return loss

        self._session, self._calls = _Called(step), [None]
        self._tf.config.experimental.reset_memory_stats(self.device)
        return {}


class _Called:
    """A function where a trial has its session."""

    def __init__(self, step: Any) -> None:
        self._step = step

    def run(self, call: None) -> Any:
        del call
        return [[self._step().numpy()]]


if __name__ == "__main__":
    main(RecomputedTrial)
