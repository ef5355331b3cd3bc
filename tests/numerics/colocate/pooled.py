"""Jobs that come, change and go in one pool, against the same jobs alone; prints what came out as JSON.

A process of its own: the pool is there once for all that a process runs.

    pooled.py              all but the next
    pooled.py unknown      a job whose batches grow to a shape that was never measured
"""

import gc
import json
import statistics
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from itertools import cycle, islice
from typing import Any

import numpy as np

from tests.numerics.colocate.colocated_jobs import BATCH, WIDTH, Session, Trained, batches, losses
from tfwave.colocate import Handle, Job, Pool
from tfwave.colocate.life import Life
from tfwave.memory.colocation import Colocation
from tfwave.memory.schedule import in_turn
from tfwave.plan.plan import Plan
from tfwave.runtime.pool import pool_in_use

import tensorflow as tf  # isort: skip  (after its pool was limited)

ROOM = 64 << 20
"""Two whole steps have no room in it beside each other, groups of them have."""
STEPS, FEW_STEPS, SMALL_STEPS = 24, 8, 40
FIRST_STEPS = 5
"""That run alone: one to warm up, three that are traced, one with barriers."""
ROWS = (BATCH, 640, 384)


def free_all() -> None:
    """That nothing refers to; functions of TensorFlow let others go when they are freed."""
    while gc.collect():
        pass


def after(handle: Handle, steps: int) -> None:
    """It has made so many, or has ended."""
    while handle.steps < steps and not handle.ended:
        time.sleep(0.005)


def in_buckets(seed: int, count: int) -> list[np.ndarray]:
    made = {rows: batches(seed + rows, count, rows) for rows in ROWS}
    return [made[rows][number] for number, rows in enumerate(islice(cycle(ROWS), count))]


def breathing() -> dict[str, Any]:
    """One stays; others come: of three shapes, too large, to be changed or cancelled, by a name that was there."""
    data = {
        "stays": batches(1, 2 * STEPS),
        "buckets": in_buckets(2, STEPS),
        "huge": batches(3, STEPS, 6 * BATCH),
        "changed": batches(4, 2 * FEW_STEPS),
        "cancelled": batches(5, 2 * STEPS),
        "again": batches(6, FEW_STEPS),
    }
    kinds = {name: Session if name == "again" else Trained for name in data}
    jobs = {name: kind(seed) for seed, (name, kind) in enumerate(kinds.items())}
    held = pool_in_use()

    def job(name: str, step: Any = None, **others: Any) -> Job:
        return Job(name, step or jobs[name].step, data[name], **others)

    planned: list[str] = []

    def telling(pool: Pool) -> Iterator[np.ndarray]:
        """Before the last batch what is planned is told, with the job that has it."""
        yield from data["again"][:-1]
        plan = pool.plan
        assert plan is not None
        assert plan.groups is not None
        planned.extend(each.job.name for each in plan.groups.jobs)
        yield data["again"][-1]

    with Pool(held + ROOM) as pool:
        handles = {"stays": pool.add(job("stays"))}
        after(handles["stays"], 6)
        handles["buckets"] = pool.add(job("buckets"))
        handles["huge"] = pool.add(job("huge", priority=9))
        huge = handles["huge"].result()
        for name in ("changed", "cancelled"):
            handles[name] = pool.add(job(name))
        after(handles["changed"], FEW_STEPS)
        handles["changed"].change(tf.function(jobs["changed"]._step))
        after(handles["cancelled"], 3)
        handles["cancelled"].cancel()
        handles["cancelled"].result()
        handles["again"] = pool.add(Job("huge", jobs["again"].step, telling(pool)))
    results = {name: handle.result() for name, handle in handles.items()}
    made = {name: result.steps for name, result in results.items()}
    kinds["huge"] = Trained
    alone = {
        name: kind(seed).alone(data[name][: made[name]]) for seed, (name, kind) in enumerate(kinds.items())
    }
    return {
        "steps": made,
        "all": {name: len(each) for name, each in data.items()},
        "errors": {name: str(result.error) for name, result in results.items() if result.error},
        "huge": type(huge.error).__name__,
        "equal": {name: losses(result.values) == alone[name] for name, result in results.items()},
        "released": pool.figures.released,
        "left": list(pool.figures.jobs),
        "planned": planned,
    }


def unknown_shape() -> dict[str, Any]:
    """In each step of a job whose batches grow under way: did the other job end a step meanwhile?

    The first steps of a shape wait a moment for that, the others until it has.
    """
    met: dict[int, list[bool]] = {rows: [] for rows in (256, BATCH)}
    data = [batch for rows in met for batch in batches(rows, FEW_STEPS, rows)]
    grows, other, ends = Trained(1), Trained(2), False

    def meets(rows: int) -> np.int64:
        before, patience = stays.steps, 0.1 if len(met[rows]) < FIRST_STEPS else 60.0
        end = time.monotonic() + patience
        while stays.steps == before and time.monotonic() < end:
            time.sleep(0.005)
        met[rows].append(stays.steps > before)
        return np.int64(0)

    @tf.function
    def step(batch: Any) -> Any:
        with tf.control_dependencies([tf.numpy_function(meets, [tf.shape(batch)[0]], tf.int64)]):
            return grows.step(batch)

    def until_the_end() -> Iterator[np.ndarray]:
        for batch in cycle(batches(2, 2)):
            if ends:
                return
            yield batch

    with Pool() as pool:
        stays = pool.add(Job("stays", other.step, until_the_end(), priority=5))
        after(stays, 6)
        grown = pool.add(Job("grows", step, data)).result()
        ends = True
    return {
        "met": list(met.values()),
        "alone": [[False] * FIRST_STEPS + [True] * (FEW_STEPS - FIRST_STEPS)] * len(met),
        "error": str(grown.error),
        "equal": losses(grown.values) == Trained(1).alone(data),
    }


def changed_within() -> list[float]:
    """What a job returns whose step is changed after a batch was taken, as it waits for its turn or is measured."""
    old, new = (tf.function(lambda batch, n=n: batch + n) for n in (1.0, 2.0))
    life = Life(Job("changed", old, [tf.constant(0.0)] * 2))

    def waits(batch: Any) -> Any:
        life.change(new)
        return float(life.instance()(batch))

    while life.advance(waits):
        pass
    return list(life.result(0.0).values)


def held_by_handles() -> list[int]:
    """What is in the pool besides, behind each of two jobs that have ended, while their handles are kept."""
    free_all()
    before, found, handles = pool_in_use(), list[int](), list[Handle]()
    with Pool() as pool:
        for number, kind in enumerate((Trained, Session)):
            model = kind(number)
            handles.append(pool.add(Job("ends", model.step, batches(number, FEW_STEPS))))
            del model
            handles[-1].result()
            free_all()
            found.append(pool_in_use() - before)
    return found


class Small:
    """Infers; notes what it waited in each step, and how long that took besides."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.weight = tf.Variable(tf.ones([WIDTH, WIDTH]))
        self.step = tf.function(lambda batch: tf.reduce_sum(batch @ self.weight))
        self.waits: list[float] = []
        self.seconds: list[float] = []

    def batches(self) -> Iterator[np.ndarray]:
        for _ in range(SMALL_STEPS):
            begin, before = time.perf_counter(), self._waited()
            yield np.ones((64, WIDTH), np.float32)
            self.waits.append(self._waited() - before)
            self.seconds.append(time.perf_counter() - begin - self.waits[-1])
            time.sleep(0.01)

    def _waited(self) -> float:
        return self.pool.figures.waited_by_job.get("small", 0.0)


def beside_training(priority: int, plan: Plan | None) -> tuple[Plan, dict[str, float]]:
    """A training of many batches, and the small one, which ends first; planned in turn if a plan is given."""
    trained, ends = Trained(1), False

    def until_the_end(data: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        for batch in cycle(data):
            if ends:
                return
            yield batch

    with Pool() as pool:
        small = Small(pool)
        jobs = [
            Job("large", trained.step, until_the_end(batches(1, 3))),
            Job("small", small.step, small.batches(), priority=priority),
        ]
        handles = pool.add_all(jobs, plan)
        result = handles[1].result()
        ends = True
    assert pool.plan is not None
    return pool.plan, {
        "p95": statistics.quantiles(small.waits, n=20)[-1],
        "step": statistics.median(small.seconds),
        "share": result.waited_seconds / result.seconds,
        "released": pool.figures.released,
    }


def in_time() -> dict[str, Any]:
    """A job whose memory is kept beside a training; the plan of both again; and two that cannot be in time."""
    trained, weight = Trained(1), tf.Variable(tf.ones([WIDTH, WIDTH]))
    infer = tf.function(lambda batch: tf.reduce_sum(batch @ weight))
    small = [np.ones((64, WIDTH), np.float32)] * SMALL_STEPS
    large = [np.ones((18 * BATCH, WIDTH), np.float32)] * FEW_STEPS
    all_came = threading.Event()

    def staying(data: list[np.ndarray]) -> Iterator[np.ndarray]:
        yield from data[:-1]
        all_came.wait()
        yield data[-1]

    def asked(name: str, data: Iterable[np.ndarray], latency: float) -> Job:
        return Job(name, infer, data, latency_at_most=latency)

    def training(data: Iterable[np.ndarray]) -> Job:
        return Job("training", trained.step, data)

    with Pool(pool_in_use() + ROOM) as pool:
        runs = pool.add(training(staying(batches(1, 2 * STEPS))))
        after(runs, 6)
        handles = [pool.add(asked(*each)) for each in (("kept", staying(small), 60.0), ("slow", small, 1e-9))]
        after(handles[0], 8)
        handles.append(pool.add(asked("wide", large, 600.0)))
        after(handles[-1], FEW_STEPS)
        all_came.set()
    planned = pool.plan
    results = {handle.name: handle.result() for handle in (runs, *handles)}
    with Pool() as again:
        replayed = again.add_all([training(batches(1, FEW_STEPS)), asked("kept", small, 60.0)], planned)
    return {
        "errors": {name: str(result.error) for name, result in results.items() if result.error},
        "waited": results["kept"].waited_seconds,
        "p95": results["kept"].latency_p95_seconds,
        "seconds": results["kept"].seconds,
        "bits": len({value.tobytes() for value in results["kept"].values}),
        "losses": losses(results["training"].values) == Trained(1).alone(batches(1, 2 * STEPS)),
        "replayed": [handle.result().steps for handle in replayed],
    }


def in_turn_plan(plan: Plan) -> Plan:
    assert plan.groups is not None
    jobs = [each.job for each in plan.groups.jobs]
    graphs = {each.job.name: each.graph for each in plan.groups.jobs}
    turns = Colocation(tuple(jobs), in_turn(jobs), plan.groups.limit_bytes)
    return Plan(groups=turns.section(graphs))


def main(arguments: list[str]) -> None:
    if arguments == ["unknown"]:
        sys.stdout.write(json.dumps(unknown_shape()))
        return
    found: dict[str, Any] = {
        "held by handles": held_by_handles(),
        "breathing": breathing(),
        "changed within": changed_within(),
    }
    free_all()
    found["in time"] = in_time()
    free_all()
    planned, _ = beside_training(5, None)
    for priority in (0, 5):
        free_all()
        _, found[f"priority {priority}"] = beside_training(priority, in_turn_plan(planned))
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
