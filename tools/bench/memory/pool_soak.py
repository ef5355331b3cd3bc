"""Jobs that come, go, change and fail at random in one pool, beside a small one of a higher priority that stays.

Each trains a model of its own on batches of up to three shapes, in random order. It ends with its batches, is
cancelled, raises, fails within a step, or gets another step under way; some may be refused for want of room. No
step may run out of memory; what each returned is compared with what a twin of the job returns alone. Now and then
all are saved: what was written last of each is compared with the twin's variables. The small one only infers: 95 of
100 of its steps must wait less than such a step takes. None is so large that its first step has no room alone: some
of TensorFlow's own kernels end the process then.

    tools/bench/memory/pool_soak.py                            1,000 steps
    tools/bench/memory/pool_soak.py --steps 5000 --seed 7
"""

import argparse
import gc
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["TF_NUM_INTRAOP_THREADS"] = "1"  # jobs that keep all cores busy would be run in turn
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import tfwave.colocate
from tfwave.sizes import parse_size

POOL = "14MiB"
tfwave.colocate.limit_memory(POOL)

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

from tfwave.colocate import Handle, Job, JobResult, Pool  # noqa: E402
from tfwave.colocate.checkpoints import Checkpoints  # noqa: E402
from tfwave.errors import PlanError  # noqa: E402
from tfwave.runtime.pool import pool_limit  # noqa: E402

v1 = tf.compat.v1
WIDTH, LAYERS, RATE = 96, 5, 0.05
ROWS = (1024, 768, 512)
LARGE = 2048
MOST_JOBS, MOST_STEPS = 3, 60
PRIORITY = 5
HANGS_SECONDS = 120.0
FAILURE = "told to fail"


def first_weights(seed: int) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    return [generator.standard_normal((WIDTH, WIDTH), np.float32) * 0.1 for _ in range(LAYERS)]


def trained(batch: Any, fails: Any, variables: Sequence[Any], act: Callable[[Any], Any]) -> Any:
    """The loss, once all variables are updated; an op fails behind the forward pass if `fails`."""
    hidden = batch
    for variable in variables:
        hidden = act(hidden @ variable.read_value())
    with tf.control_dependencies([tf.debugging.Assert(tf.logical_not(fails), [FAILURE])]):
        loss = tf.reduce_mean((hidden - batch) ** 2)
    gradients = tf.gradients(loss, variables)
    updates = [v.assign_sub(RATE * gradient) for v, gradient in zip(variables, gradients, strict=True)]
    with tf.control_dependencies(updates):
        return tf.identity(loss)


class Function:
    """Two `tf.function`s on the same weights, each of which says which it is."""

    def __init__(self, seed: int) -> None:
        self._weights: list[Any] = [tf.Variable(tf.constant(value)) for value in first_weights(seed)]
        acts = tf.nn.relu, tf.tanh
        self.steps = [
            tf.function(lambda x, fails, n=n: (n, trained(x, fails, self._weights, acts[n]))) for n in (0, 1)
        ]
        self.checkpoint: Any = tf.train.Checkpoint(weights=self._weights)

    def variables(self) -> list[np.ndarray]:
        return [weight.numpy() for weight in self._weights]

    def alone(self, which: int, batch: tuple[Any, ...]) -> Any:
        return np.array(self.steps[which](*map(tf.constant, batch))[1])


class Session:
    """The same in a session."""

    def __init__(self, seed: int) -> None:
        with tf.Graph().as_default() as graph:
            fed, fails = v1.placeholder(tf.float32, [None, WIDTH]), v1.placeholder(tf.bool, [])
            self._feeds = [fed, fails]
            weights = [
                v1.get_variable(f"w{number}", initializer=value, use_resource=True)
                for number, value in enumerate(first_weights(seed))
            ]
            self._fetches = [
                (tf.constant(number), trained(fed, fails, weights, act))
                for number, act in enumerate((tf.nn.relu, tf.tanh))
            ]
            self._weights = [weight.read_value() for weight in weights]
            init = v1.global_variables_initializer()
            self.checkpoint: Any = v1.train.Saver()
        self._session = v1.Session(graph=graph)
        self._session.run(init)
        self.steps = [
            tfwave.colocate.SessionStep(self._session, fetches, self._feeds) for fetches in self._fetches
        ]

    def alone(self, which: int, batch: tuple[Any, ...]) -> Any:
        return self._session.run(self._fetches[which], dict(zip(self._feeds, batch, strict=True)))[1]

    def variables(self) -> list[np.ndarray]:
        return self._session.run(self._weights)


@dataclass
class Visit:
    """A job while it is there."""

    name: str
    kind: type[Function | Session]
    seed: int
    batches: list[tuple[np.ndarray, bool]]
    raises: bool
    model: Function | Session | None
    handle: Handle | None = None
    result: JobResult | None = None

    @property
    def steps(self) -> int:
        return self.handle.steps if self.handle else self.result.steps if self.result else 0

    def end(self) -> JobResult:
        """Once it has: what only it had in the pool comes free."""
        if self.handle:
            self.result = self.handle.result()
            self.model = self.handle = None
        assert self.result is not None
        return self.result

    def data(self) -> Iterator[tuple[np.ndarray, np.bool_]]:
        for rows, fails in self.batches:
            yield rows, np.bool_(fails)
        if self.raises:
            raise ValueError(FAILURE)

    def is_as_alone(self, result: JobResult, saves: Checkpoints) -> bool:
        """A twin makes the same steps, without the pool's jobs beside it, and at one of them it is as saved."""
        gc.collect()  # of the twin before
        twin, saved = self.kind(self.seed), saves.find(self.name)
        is_same = saved is not None or result.steps == 0 or _ending(result) == "failed"
        for steps, ((which, loss), (rows, _)) in enumerate(zip(result.values, self.batches, strict=False), 1):
            is_same &= np.asarray(loss).tobytes() == twin.alone(int(which), (rows, np.bool_(False))).tobytes()
            if saved is not None and saved.steps == steps:
                is_same &= [value.tobytes() for value in twin.variables()] == _written(saves.prefix(saved))
        return is_same


class Small:
    """Infers, step after step, and notes how long each waited for room, of how long it took."""

    name = "small"

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._weights = [tf.Variable(tf.constant(value)) for value in first_weights(0)[:2]]
        self.batch = np.ones((64, WIDTH), np.float32)
        self.stopped = False
        self.waits: list[float] = []
        self.seconds: list[float] = []

    def job(self) -> Job:
        @tf.function
        def step(batch: Any) -> Any:
            for weight in self._weights:
                batch = tf.nn.relu(batch @ weight)
            return tf.reduce_sum(batch)

        return Job(self.name, step, self._batches(), priority=PRIORITY)

    def _batches(self) -> Iterator[np.ndarray]:
        while not self.stopped:
            begin, before = time.perf_counter(), self._waited()
            yield self.batch
            waited = self._waited() - before
            self.waits.append(waited)
            self.seconds.append(time.perf_counter() - begin - waited)
            time.sleep(0.002)

    def _waited(self) -> float:
        return self._pool.figures.waited_by_job.get(self.name, 0.0)


@dataclass
class Soak:
    """A pool, who is in it, and who was."""

    pool: Pool
    chance: random.Random
    steps: int
    there: list[Visit] = field(default_factory=list[Visit])
    gone: list[Visit] = field(default_factory=list[Visit])
    changes: int = 0
    cancels: int = 0
    saves: int = 0

    def run(self) -> None:
        """Until enough steps were made; then none comes any more."""
        seen, since = -1, time.monotonic()
        while self.made() < self.steps:
            self._event()
            time.sleep(self.chance.uniform(0.0, 0.05))
            if (made := self.made()) != seen:
                seen, since = made, time.monotonic()
            if time.monotonic() - since > HANGS_SECONDS:
                print(f"hangs after {seen} steps", file=sys.stderr, flush=True)
                os._exit(1)
        self.gone += self.there

    def made(self) -> int:
        return sum(visit.steps for visit in (*self.gone, *self.there))

    def _event(self) -> None:
        ended = [visit for visit in self.there if visit.handle and visit.handle.ended]
        for visit in ended:
            visit.end()
        self.gone += ended
        self.there = [visit for visit in self.there if visit.handle]
        if ended:
            gc.collect()  # of models: their functions and variables know each other
        dice = self.chance.random()
        if len(self.there) < MOST_JOBS and dice < 0.5:
            self.there += self._come(1 + (dice < 0.1 and len(self.there) + 2 <= MOST_JOBS))
        elif self.there and dice > 0.98:
            self.cancels += 1
            handle, _ = self._one()
            handle.cancel()
        elif dice > 0.96:
            self.saves += 1
            self.pool.save()
        elif self.there and dice > 0.92:
            self.changes += 1
            handle, model = self._one()
            handle.change(self.chance.choice(model.steps))

    def _one(self) -> tuple[Handle, Function | Session]:
        visit = self.chance.choice(self.there)
        assert visit.handle is not None
        assert visit.model is not None
        return visit.handle, visit.model

    def _come(self, count: int) -> list[Visit]:
        """One, or several that are planned together."""
        visits = [self._visit(f"visit {len(self.gone) + len(self.there) + n}") for n in range(count)]
        jobs = [
            Job(
                visit.name,
                visit.model.steps[0],
                visit.data(),
                priority=self.chance.randrange(2),
                checkpoint=visit.model.checkpoint,
            )
            for visit in visits
            if visit.model is not None
        ]
        for visit, handle in zip(visits, self.pool.add_all(jobs), strict=True):
            visit.handle = handle
        return visits

    def _visit(self, name: str) -> Visit:
        chance = self.chance
        seed, kind = chance.randrange(1 << 30), chance.choice((Function, Session))
        generator = np.random.default_rng(seed)
        rows = chance.sample(ROWS, chance.randint(1, len(ROWS))) if chance.random() > 0.1 else [LARGE]
        count = chance.randint(1, MOST_STEPS)
        fatal = chance.randrange(3 * count)
        batches = [
            (generator.standard_normal((chance.choice(rows), WIDTH), np.float32), number == fatal)
            for number in range(count)
        ]
        return Visit(name, kind, seed, batches, chance.random() < 0.1, kind(seed))


def _written(prefix: str) -> list[bytes]:
    """The weights in a checkpoint, by their names, which both kinds number."""
    reader = tf.train.load_checkpoint(prefix)
    shapes = reader.get_variable_to_shape_map()
    return [reader.get_tensor(name).tobytes() for name in sorted(shapes) if len(shapes[name]) == 2]


def _ending(result: JobResult) -> str:
    error = result.error
    if isinstance(error, tf.errors.ResourceExhaustedError):
        return "out of memory"
    if error is None or isinstance(error, CancelledError):
        return "cancelled" if error else "ended"
    if isinstance(error, PlanError):
        return "no room"
    return "failed" if FAILURE in str(error) else f"other: {error}"


def soak(steps: int, seed: int, directory: Path) -> dict[str, Any]:
    begin = time.monotonic()
    tf.config.experimental.reset_memory_stats("CPU:0")
    with Pool(checkpoints=directory) as pool:
        small = Small(pool)
        stays = pool.add(small.job())
        run = Soak(pool, random.Random(seed), steps)
        run.run()
        results = {visit.name: (visit, visit.end()) for visit in run.gone}
        small.stopped = True
        infers = stays.result()
    peak = tf.config.experimental.get_memory_info("CPU:0")["peak"]
    figures, saves = pool.figures, Checkpoints(directory, pool_limit())
    endings = Counter(_ending(result) for _, result in results.values())
    shapes = [len({len(rows) for rows, _ in visit.batches}) for visit, _ in results.values()]
    return {
        "seed": seed,
        "jobs": len(results),
        "steps": sum(result.steps for _, result in results.values()),
        "small_steps": infers.steps,
        "changes": run.changes,
        "cancels": run.cancels,
        "saves": run.saves,
        "several_shapes": sum(count > 1 for count in shapes),
        "endings": dict(sorted(endings.items())),
        "bit_equal": all(visit.is_as_alone(result, saves) for visit, result in results.values())
        and len({value.tobytes() for value in infers.values}) == 1,
        "admitted": figures.admitted,
        "waited": figures.waited,
        "let_through": figures.released,
        "longest_wait_seconds": figures.longest_wait_seconds,
        "small_wait_p95_seconds": statistics.quantiles(small.waits, n=20)[-1],
        "small_step_median_seconds": statistics.median(small.seconds),
        "ledger_at_the_end": {name: vars(job) for name, job in figures.jobs.items()},
        "pool": parse_size(POOL),
        "peak": peak,
        "seconds": time.monotonic() - begin,
    }


def holds(found: dict[str, Any]) -> bool:
    """No step ran out of memory or failed unasked, none computed otherwise, and the small one did not wait long."""
    unasked = [ending for ending in found["endings"] if ending == "out of memory" or "other" in ending]
    let_through = found["let_through"] or found["ledger_at_the_end"]
    is_in_time = found["small_wait_p95_seconds"] < found["small_step_median_seconds"]
    return found["bit_equal"] and is_in_time and not unasked and not let_through


def main() -> None:
    """Soak, and say what came of it; exit code 1 if it is not as promised."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        found = soak(arguments.steps, arguments.seed, Path(directory))
    print(json.dumps(found, indent=1))
    sys.exit(0 if holds(found) else 1)


if __name__ == "__main__":
    main()
