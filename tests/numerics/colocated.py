"""Jobs beside each other in a limited pool, against the same jobs alone; prints what came out as JSON.

A process of its own: the pool is there once for all that a process runs.
"""

import gc
import json
import sys
from collections.abc import Iterator
from typing import Any

import tfwave.colocate as colocation

POOL, SHARED = "128MiB", "56MiB"
colocation.limit_memory(POOL)

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

from tfwave.colocate.size import parse_size  # noqa: E402
from tfwave.runtime.group_barriers import Watch  # noqa: E402
from tfwave.runtime.live.grappler import in_grappler  # noqa: E402

v1 = tf.compat.v1
WIDTH, BATCH, LAYERS, STEPS = 256, 1024, 6, 12
FAILS_AFTER = 8


def weights(seed: int) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    return [generator.standard_normal((WIDTH, WIDTH), np.float32) * 0.05 for _ in range(LAYERS)]


def batches(seed: int, count: int = STEPS) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    return [generator.standard_normal((BATCH, WIDTH), np.float32) for _ in range(count)]


class Trained:
    """A `tf.function` with a nested function, a branch and a loop in it."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.variables = [tf.Variable(value) for value in weights(seed)]
        self.step = tf.function(self._step)

    @tf.function
    def _layer(self, hidden: Any, number: int) -> Any:
        return tf.nn.relu(hidden @ self.variables[number])

    def _step(self, batch: Any) -> Any:
        with tf.GradientTape() as tape:
            hidden = batch
            for number in range(LAYERS):
                hidden = self._layer(hidden, number)
            hidden = tf.cond(tf.reduce_sum(hidden) > 0.0, lambda: hidden * 2.0, lambda: tf.tanh(hidden))
            turns = tf.while_loop(lambda i, _: i < 3, lambda i, h: (i + 1, h * 0.9), (0, hidden))
            loss = tf.reduce_mean((turns[1] - batch) ** 2)
        for variable, gradient in zip(self.variables, tape.gradient(loss, self.variables), strict=True):
            variable.assign_sub(0.05 * gradient)
        return loss

    def alone(self, data: list[np.ndarray]) -> list[str]:
        return [self.step(tf.constant(batch)).numpy().tobytes().hex() for batch in data]


class Session:
    """The like of it in a session."""

    def __init__(self, seed: int) -> None:
        with tf.Graph().as_default() as graph:
            self.batch = v1.placeholder(tf.float32, [BATCH, WIDTH])
            hidden = self.batch
            for number, value in enumerate(weights(seed)):
                hidden = tf.nn.relu(
                    hidden @ v1.get_variable(f"w{number}", initializer=value, use_resource=True)
                )
            self.loss = tf.reduce_mean((hidden - self.batch) ** 2)
            self.train = v1.train.MomentumOptimizer(0.05, 0.9).minimize(self.loss)
            init = v1.global_variables_initializer()
        self.session = v1.Session(graph=graph)
        self.session.run(init)

    @property
    def step(self) -> colocation.SessionStep:
        return colocation.SessionStep(self.session, [self.loss, self.train], [self.batch])

    def alone(self, data: list[np.ndarray]) -> list[str]:
        fetches = [self.loss, self.train]
        return [self.session.run(fetches, {self.batch: batch})[0].tobytes().hex() for batch in data]


def failing(data: list[np.ndarray]) -> Iterator[np.ndarray]:
    yield from data[:FAILS_AFTER]
    raise ValueError("no more data")


def losses(values: tuple[Any, ...]) -> list[str]:
    return [(value[0] if isinstance(value, list) else value).tobytes().hex() for value in values]


def main() -> None:
    made = {"one": (Trained, 1), "two": (Trained, 2), "session": (Session, 3)}
    data = {name: batches(seed, STEPS + 2) for name, (_, seed) in made.items()}
    alone = {name: kind(seed).alone(data[name]) for name, (kind, seed) in made.items()}
    gc.collect()
    beside = {name: kind(seed) for name, (kind, seed) in made.items()}
    before = {name: job.alone(data[name][:1]) for name, job in beside.items()}
    breaks, mixed, short = Trained(4), Trained(5), Trained(6)
    odd = [*batches(5, 7), np.zeros((3, WIDTH), np.float32)]
    tf.config.experimental.reset_memory_stats("CPU:0")
    results = colocation.run(
        [
            *[colocation.Job(name, job.step, data[name][1:-1]) for name, job in beside.items()],
            colocation.Job("breaks", breaks.step, failing(batches(4))),
            colocation.Job("mixed", mixed.step, odd),
            colocation.Job("short", short.step, batches(6, 2)),
        ],
        SHARED,
    )
    peak = tf.config.experimental.get_memory_info("CPU:0")["peak"]
    with in_grappler(watch := Watch()):
        after = {name: job.alone(data[name][-1:]) for name, job in beside.items()}
    assert results.plan is not None
    assert results.figures is not None
    sys.stdout.write(
        json.dumps(
            {
                "made": STEPS,
                "fails after": FAILS_AFTER,
                "alone": alone,
                "beside": {name: before[name] + losses(results[name].values) + after[name] for name in made},
                "steps": {name: result.steps for name, result in results.items()},
                "errors": {name: str(r.error) for name, r in results.items() if r.error is not None},
                "optimized again": len(watch.seen),
                "groups": {job.name: len(job.groups) for job in results.plan.jobs},
                "peak": peak,
                "limit": parse_size(SHARED),
                "admitted": results.figures.admitted,
                "released": results.figures.released,
            }
        )
    )


if __name__ == "__main__":
    main()
