"""Two jobs that come and go in one limited pool, and are killed at random: the pool never runs out, nothing hangs.

One makes its steps by a `tf.function`, the other by a session. A visit: the job joins the ledger, takes its first
weights, makes up to three steps, and goes. Two in five visits end early: an op fails within a step, or the step is
cancelled, or runs out of time, wherever it is then. Each loss is compared with that of the same step alone.

    tools/bench/memory/colocation_soak.py                              1,000 visits of each job
    tools/bench/memory/colocation_soak.py --iterations 300 --seed 7
"""

import argparse
import json
import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["TF_NUM_INTRAOP_THREADS"] = "1"  # jobs that keep all cores busy would be run in turn
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import tfwave.colocate
from tfwave.sizes import parse_size

POOL = "15MiB"
tfwave.colocate.limit_memory(POOL)

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from tensorflow.python.eager.cancellation import (  # noqa: E402
    CancellationManager,
    CancellationManagerContext,
)

from tfwave.colocate.life import Life, Run  # noqa: E402
from tfwave.colocate.measure import TRACED_STEPS, insert_barriers, ledger_job, measure  # noqa: E402
from tfwave.colocate.planned import found  # noqa: E402
from tfwave.colocate.profile import constant_bytes  # noqa: E402
from tfwave.colocate.room import open_ledger  # noqa: E402
from tfwave.memory.colocation import Colocation, colocate  # noqa: E402
from tfwave.runtime.ledger import Ledger, LedgerJob, load_barrier_op  # noqa: E402
from tfwave.runtime.pool import pool_in_use  # noqa: E402

v1 = tf.compat.v1
WIDTH, BATCH, LAYERS, RATE = 128, 1024, 6, 0.05
PLACES = 3
"""Where an op can fail: in the forward pass, behind it, and behind the backward pass."""
MOST_STEPS = 3
FIRST_STEPS = TRACED_STEPS + 1
KILLED_SHARE = 0.4
KILLED_AFTER_MILLISECONDS = (1, 20)
HANGS_SECONDS = 60.0
"""The longest that a group may wait, and that nothing may happen."""
FAILURE = "told to fail"

Value = TypeVar("Value")


class Failing:
    """An op of a step that fails where it is told to."""

    def __init__(self) -> None:
        self.place = -1

    def __call__(self, value: Any, place: int) -> Any:
        """The value, unless it is the place."""
        with tf.control_dependencies([value]):
            asked = tf.numpy_function(self._ask, [tf.constant(place)], tf.int32)
        with tf.control_dependencies([asked]):
            return tf.identity(value)

    def _ask(self, place: np.int32) -> np.int32:
        if place == self.place:
            raise ValueError(FAILURE)
        return place


def first_weights(seed: int) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    return [generator.standard_normal((WIDTH, WIDTH), np.float32) * 0.05 for _ in range(LAYERS)]


def training_step(batch: Any, variables: Sequence[Any], failing: Failing) -> Any:
    """The loss, once all variables are updated."""
    weights = [variable.read_value() for variable in variables]
    hidden = batch
    for weight in weights[: LAYERS // 2]:
        hidden = tf.nn.relu(hidden @ weight)
    hidden = failing(hidden, 0)
    for weight in weights[LAYERS // 2 :]:
        hidden = tf.tanh(hidden @ weight)
    loss = failing(tf.reduce_mean((hidden - batch) ** 2), 1)
    gradients = tf.gradients(loss, weights)
    gradients[0] = failing(gradients[0], 2)
    updates = [
        variable.assign_sub(RATE * gradient) for variable, gradient in zip(variables, gradients, strict=True)
    ]
    with tf.control_dependencies(updates):
        return tf.identity(loss)


class FunctionJob:
    """Steps of a `tf.function`, which can be cancelled."""

    name = "function"

    def __init__(self, seed: int) -> None:
        self.failing = Failing()
        first = [tf.constant(value) for value in first_weights(seed)]
        variables = [tf.Variable(value) for value in first]
        self.step = tf.function(lambda batch: training_step(batch, variables, self.failing))
        self.alone = self.step

        @tf.function
        def reset() -> None:
            for variable, value in zip(variables, first, strict=True):
                variable.assign(value)

        self.reset = reset

    def loss(self, value: Any) -> bytes:
        return value.numpy().tobytes()

    @contextmanager
    def cut_short(self, milliseconds: int) -> Generator[None]:
        manager = CancellationManager()
        timer = threading.Timer(milliseconds / 1e3, manager.start_cancel)
        timer.start()
        try:
            with CancellationManagerContext(manager):
                yield
        finally:
            timer.cancel()
            timer.join()


class SessionJob:
    """Steps of a session, which can run out of time. It is a session to `SessionStep`, too."""

    name = "session"

    def __init__(self, seed: int) -> None:
        self.failing = Failing()
        self.graph = tf.Graph()
        with self.graph.as_default():
            self._batch = v1.placeholder(tf.float32, [BATCH, WIDTH])
            variables = [
                v1.get_variable(f"w{number}", initializer=value, use_resource=True)
                for number, value in enumerate(first_weights(seed))
            ]
            self._loss = training_step(self._batch, variables, self.failing)
            self._init = v1.global_variables_initializer()
        self._session = v1.Session(graph=self.graph)
        self._options: Any = None
        self.step = tfwave.colocate.SessionStep(self, self._loss, [self._batch])

    def run(self, fetches: Any, feeds: Any, options: Any = None, metadata: Any = None) -> Any:
        return self._session.run(fetches, feeds, options or self._options, metadata)

    def alone(self, batch: Any) -> Any:
        return self._session.run(self._loss, {self._batch: batch})

    def reset(self) -> None:
        self._session.run(self._init)

    def loss(self, value: Any) -> bytes:
        return value.tobytes()

    @contextmanager
    def cut_short(self, milliseconds: int) -> Generator[None]:
        self._options = v1.RunOptions(timeout_in_ms=milliseconds)
        try:
            yield
        finally:
            self._options = None


SoakJob = FunctionJob | SessionJob


@dataclass
class Visitor:
    """A job with its barriers, what its steps give alone, and what came of its visits."""

    job: SoakJob
    entry: LedgerJob
    run: Run
    batches: Sequence[np.ndarray]
    alone: Sequence[bytes]
    chance: random.Random
    visits: int = 0
    counts: Counter[str] = field(default_factory=Counter[str])

    def visit(self, ledger: Ledger) -> None:
        """Come, make some steps, unless killed, and go."""
        ledger.add(self.entry)
        try:
            self.job.reset()
            steps = self.chance.randrange(1, MOST_STEPS + 1)
            fatal = self.chance.randrange(steps) if self.chance.random() < KILLED_SHARE else steps
            for number in range(steps):
                if not self._step(ledger, number, self._kill() if number == fatal else nullcontext()):
                    break
        finally:
            ledger.remove(self.entry.name)
            self.visits += 1

    def _kill(self) -> Any:
        """One of the ways, drawn whether it can strike or not."""
        milliseconds = self.chance.randint(*KILLED_AFTER_MILLISECONDS)
        place = self.chance.randrange(2 * PLACES)
        return self._failing(place) if place < PLACES else self.job.cut_short(milliseconds)

    @contextmanager
    def _failing(self, place: int) -> Generator[None]:
        self.job.failing.place = place
        try:
            yield
        finally:
            self.job.failing.place = -1

    def _step(self, ledger: Ledger, number: int, killer: Any) -> bool:
        """Whether the step was made."""
        try:
            with killer, ledger.step(self.entry.name):
                value = self.run(self.batches[number])
        except tf.errors.OpError as error:
            self.counts[_kind(error)] += 1
            return False
        self.counts["steps"] += 1
        self.counts["other losses"] += self.job.loss(value) != self.alone[number]
        return True


def _kind(error: Any) -> str:
    if isinstance(error, tf.errors.ResourceExhaustedError):
        return "out of memory"
    if isinstance(error, tf.errors.CancelledError | tf.errors.DeadlineExceededError):
        return "cancelled"
    return "killed" if FAILURE in error.message else f"other: {error.message}"


def soak(iterations: int, seed: int) -> dict[str, object]:
    load_barrier_op()
    jobs: list[SoakJob] = [FunctionJob(1), SessionJob(2)]
    generator = np.random.default_rng(3)
    batches = [generator.standard_normal((BATCH, WIDTH), np.float32) for _ in range(MOST_STEPS)]
    alone = {job.name: _alone(job, batches) for job in jobs}
    lives = [Life(tfwave.colocate.Job(job.name, job.step, [batches[0]] * FIRST_STEPS)) for job in jobs]
    steps = [_found(measure(life), life) for life in lives]
    limit = parse_size(POOL) - pool_in_use() - sum(constant_bytes(step.step.view.nodes) for step in steps)
    plan = colocate([step.step for step in steps], limit)
    visitors: list[Visitor] = []
    for place, grouped in enumerate(plan.jobs):
        ready = found(grouped, steps[place].made)
        run = lives[place].instance()
        _, placed = insert_barriers(lives[place], run, ready, (batches[0],))
        _found(placed or None, lives[place])
        chance = random.Random(f"{seed} {grouped.name}")
        visitors.append(
            Visitor(jobs[place], ledger_job(ready.job, 0), run, batches, alone[grouped.name], chance)
        )
    with open_ledger(plan.jobs, parse_size(POOL) - pool_in_use(), HANGS_SECONDS) as ledger:
        return _visits(ledger, visitors, plan, iterations) | {"seed": seed}


def _found(value: Value | None, life: Life) -> Value:
    if value is None:
        raise SystemExit(f"the job '{life.job.name}' ended before the soak: {life.error}")
    return value


def _alone(job: SoakJob, batches: Sequence[np.ndarray]) -> list[bytes]:
    job.reset()
    return [job.loss(job.alone(batch)) for batch in batches]


def _visits(
    ledger: Ledger, visitors: Sequence[Visitor], plan: Colocation, iterations: int
) -> dict[str, object]:
    tf.config.experimental.reset_memory_stats("CPU:0")
    before, begin = pool_in_use(), time.monotonic()

    def live(visitor: Visitor) -> None:
        for _ in range(iterations):
            visitor.visit(ledger)

    with ThreadPoolExecutor(len(visitors)) as threads:
        futures = [threads.submit(live, visitor) for visitor in visitors]
        _watch(lambda: all(future.done() for future in futures), lambda: [v.visits for v in visitors])
        for future in futures:
            future.result()
    seconds = time.monotonic() - begin
    counts = sum((visitor.counts for visitor in visitors), Counter[str]())
    figures = ledger.figures()
    for visitor in visitors:
        visitor.job.reset()
    return {
        "iterations": iterations,
        "visits": sum(visitor.visits for visitor in visitors),
        "steps": counts["steps"],
        "kills": counts["killed"],
        "cancellations": counts["cancelled"],
        "out_of_memory": counts["out of memory"],
        "other_errors": {kind: count for kind, count in counts.items() if kind.startswith("other: ")},
        "losses_bit_equal": counts["other losses"] == 0,
        "ledger_at_the_end": {name: vars(job) for name, job in figures.jobs.items()},
        "admitted": figures.admitted,
        "waited": figures.waited,
        "let_through": figures.released,
        "longest_wait_seconds": figures.longest_wait_seconds,
        "seconds": seconds,
        "groups": {job.name: len(job.groups) for job in plan.jobs},
        "peaks_alone": {job.name: job.peak for job in plan.jobs},
        "pool": parse_size(POOL),
        "peak": tf.config.experimental.get_memory_info("CPU:0")["peak"],
        "in_use": [before, pool_in_use()],
    }


def _watch(ended: Callable[[], bool], progress: Callable[[], list[int]]) -> None:
    """Until it has ended; ends the process if nothing happens for too long."""
    seen, since = progress(), time.monotonic()
    while not ended():
        time.sleep(0.05)
        if (now := progress()) != seen:
            seen, since = now, time.monotonic()
        if time.monotonic() - since > HANGS_SECONDS:
            print(f"hangs after {seen} visits", file=sys.stderr, flush=True)
            os._exit(1)


def holds(found: dict[str, Any]) -> bool:
    """No step ran out of memory or failed unasked, none computed otherwise, and the ledger is empty."""
    return (
        found["losses_bit_equal"]
        and not found["out_of_memory"]
        and not found["other_errors"]
        and not found["ledger_at_the_end"]
        and not found["let_through"]
        and found["peak"] <= found["pool"]
    )


def main() -> None:
    """Soak, and say what came of it; exit code 1 if it is not as promised."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--iterations", type=int, default=1000, help="visits of each job")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    found = soak(arguments.iterations, arguments.seed)
    print(json.dumps(found, indent=1))
    sys.exit(0 if holds(found) else 1)


if __name__ == "__main__":
    main()
