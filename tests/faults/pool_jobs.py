"""One job stays in a limited pool while bad ones come to it: `python -m tests.faults.pool_jobs SEED STEPS`.

Prints as JSON what struck, and how the bad job ended.
"""

import json
import math
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from typing import Any

import numpy as np

from tests.numerics.colocate.colocated_jobs import BATCH, Trained, batches, losses
from tfwave.colocate import Handle, Job, Pool
from tfwave.runtime.pool import pool_in_use, pool_limit

import tensorflow as tf  # isort: skip  (after its pool was limited)

ROOM = 64 << 20
GOOD_STEPS = 8
"""So many a bad job makes before it turns bad: it has been planned beside the one that stays."""
STAYS_ON = 4
"""Steps that the one that stays has to make while a bad one hangs."""
HANGS_SECONDS = 60.0
LEFT, PIECE, LEAST_PIECE = 2 << 20, 1 << 20, 1 << 16
"""Bytes: of a full pool; and of what it is filled with, at most and at least."""
FULL_SECONDS = 0.2
"""A step that finds no memory fails after ten seconds: TensorFlow's own patience."""
NAME = "bad"


def raising(data: list[np.ndarray], stays: Handle) -> Job:
    def until_it_raises() -> Iterator[np.ndarray]:
        yield from data
        raise OSError("no more data")

    return Job(NAME, Trained(2).step, until_it_raises())


def failing(data: list[np.ndarray], stays: Handle) -> Job:
    """An op fails behind the forward pass."""
    trained, data = Trained(2), [*data, np.full_like(data[0], np.nan)]
    return Job(
        NAME, tf.function(lambda batch: tf.debugging.check_numerics(trained._step(batch), "broken")), data
    )


def growing(data: list[np.ndarray], stays: Handle) -> Job:
    """Its batches become so large that a step has no room beside the other's."""
    return Job(NAME, Trained(2).step, [*data, *batches(3, 2, 9 * BATCH)])


def hanging(data: list[np.ndarray], stays: Handle) -> Job:
    """A step hangs in the middle until the other job has gone on, which it must."""
    trained, called = Trained(2), [0]

    def hang(loss: np.ndarray) -> np.ndarray:
        called[0] += 1
        if called[0] == GOOD_STEPS:
            after(stays, stays.steps + STAYS_ON)
        return loss

    @tf.function
    def step(batch: Any) -> Any:
        loss = tf.numpy_function(hang, [tf.reduce_mean(batch)], tf.float32)
        with tf.control_dependencies([loss]):
            return trained._step(batch)

    return Job(NAME, step, data)


def exhausting(data: list[np.ndarray], stays: Handle) -> Job:
    """A step asks at last for more than the whole pool: TensorFlow looks for it in vain, then the step fails."""
    trained, called = Trained(2), [0]

    def asked() -> np.int64:
        called[0] += 1
        return np.int64(pool_limit() if called[0] == GOOD_STEPS else 1)

    @tf.function
    def step(batch: Any) -> Any:
        taken = tf.fill([tf.numpy_function(asked, [], tf.int64)], 0.0)
        return trained._step(batch) + tf.reduce_sum(taken)

    return Job(NAME, step, data)


def full_for_a_while() -> None:
    """What is left of TensorFlow's pool is taken by nobody's job, and is not enough for a step."""
    taken: list[Any] = []
    end = math.inf
    while time.monotonic() < end:
        free = pool_limit() - pool_in_use() - LEFT
        if free >= LEAST_PIECE:
            taken.append(tf.fill([min(free // 4, PIECE) // 4], 0.0))
        elif end == math.inf:
            end = time.monotonic() + FULL_SECONDS
        else:
            threading.Event().wait(0.001)


JOBS: dict[str, Callable[[list[np.ndarray], Handle], Job]] = {
    "a job's data raise": raising,
    "a job's NaN check fails": failing,
    "a job takes more memory than it told": growing,
    "a job asks for more than the pool": exhausting,
    "a job hangs in a step": hanging,
}
FULL = "the pool is full for a while"


def after(handle: Handle, steps: int) -> None:
    """It has made so many, or has ended."""
    end = time.monotonic() + HANGS_SECONDS
    while handle.steps < steps and not handle.ended:
        assert time.monotonic() < end, f"the job '{handle.name}' hangs at {handle.steps} steps"
        threading.Event().wait(0.005)


def struck(fault: str, pool: Pool, data: list[np.ndarray], stays: Handle) -> str:
    """With which error the bad job ended, if there was one."""
    if fault == FULL:
        full_for_a_while()
        return ""
    bad = pool.add(JOBS[fault](data, stays)).result(HANGS_SECONDS)
    return type(bad.error).__name__ if bad.error else ""


def main() -> None:
    seed, steps = int(sys.argv[1]), int(sys.argv[2])
    chance, data = random.Random(seed), batches(1, 5)
    fed = list(islice(cycle(data), steps))
    found: list[tuple[str, str]] = []
    trained = Trained(1)
    with Pool(pool_in_use() + ROOM) as pool:
        stays = pool.add(Job("stays", trained.step, fed))
        after(stays, GOOD_STEPS)
        while not stays.ended:
            for fault in chance.sample([*JOBS, FULL], len(JOBS) + 1):
                found.append((fault, struck(fault, pool, fed[:GOOD_STEPS], stays)))
    result = stays.result()
    said = {
        "faults": found,
        "equal": losses(result.values) == Trained(1).alone(fed),
        "steps": result.steps,
        "left": list(pool.figures.jobs),
        "let_through": pool.figures.released,
    }
    sys.stdout.write(json.dumps(said) + "\n")


if __name__ == "__main__":
    main()
