"""Jobs of a pool that is saved while they run, and killed; and the same from there. Prints what came out as JSON.

resumed.py save DIRECTORY      trains, saves several times, and is killed in the midst of the last save
resumed.py resume DIRECTORY    goes on, to the end
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from tests.numerics.colocate.colocated_jobs import BATCH, WIDTH, Keras, Session, Trained, batches, losses
from tfwave.colocate import Job, Pool, SessionStep
from tfwave.errors import CheckpointError, TfwaveError
from tfwave.runtime.pool import pool_in_use

import tensorflow as tf  # isort: skip  (after its pool was limited)

v1 = tf.compat.v1
ROOM = 100 << 20
STEPS, SHORT, PAUSE, HOLD, SAVES = 30, 6, 16, 22, 5
"""In the process that is killed, each stops before the step `PAUSE` until all saves but the last are made, and for
good before the step `HOLD`."""
ALL_SAVED = threading.Event()
SECONDS = 120.0


class Counted(Trained):
    """Counts its steps in a variable, too."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.count = tf.Variable(0, dtype=tf.int64)

    def _step(self, batch: Any) -> Any:
        self.count.assign_add(1)
        return super()._step(batch)

    def saved(self) -> Any:
        return Killing(weights=self.variables, count=self.count)


class Dropping(Keras):
    """Dropout's seeds, which Keras leaves out of checkpoints, are named by hand."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.model.optimizer.build(self.model.trainable_variables)
        self._seeds = [
            layer.seed_generator.state.value for layer in self.model.layers if "dropout" in layer.name
        ]

    def saved(self) -> Any:
        metrics = [variable.value for metric in self.model.metrics for variable in metric.variables]
        return tf.train.Checkpoint(model=self.model, seeds=self._seeds, metrics=metrics)


class Momentum(Session):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        with self.session.graph.as_default():
            self._saver = v1.train.Saver()

    def saved(self) -> Any:
        return self._saver


class Killing(tf.train.Checkpoint):
    """Kills its process when it has written its files, once that is wanted."""

    armed = False

    def write(self, *arguments: Any, **options: Any) -> Any:
        written = super().write(*arguments, **options)
        if Killing.armed:
            os.kill(os.getpid(), signal.SIGKILL)
        return written


KINDS: dict[str, tuple[type[Any], int]] = {
    "function": (Counted, STEPS),
    "keras": (Dropping, STEPS),
    "session": (Momentum, STEPS),
    "short": (Counted, SHORT),
}


def made() -> dict[str, Any]:
    return {name: kind(seed) for seed, (name, (kind, _)) in enumerate(KINDS.items())}


def data(name: str) -> list[Any]:
    seed = list(KINDS).index(name)
    return batches(seed, KINDS[name][1])


def held(name: str, kind: Any) -> Iterator[Any]:
    """Its batches, until it has to wait for ever."""
    for number, batch in enumerate(data(name)):
        if number == PAUSE:
            ALL_SAVED.wait()
        if number == HOLD:
            threading.Event().wait()
        yield kind.batch(batch)


def save(directory: Path) -> None:
    """Several times while all run; each save must have of each job just what its steps say."""
    jobs = made()
    with Pool(ROOM, checkpoints=directory) as pool:
        handles = pool.add_all(
            [Job(name, kind.step, held(name, kind), checkpoint=kind.saved()) for name, kind in jobs.items()]
        )
        after(handles, SHORT)
        handles[-1].result(SECONDS)
        found = [saved(pool, directory) for _ in range(SAVES)]
        ALL_SAVED.set()
        after(handles[:-1], HOLD)
        sys.stdout.write(
            json.dumps({"saves": found, "then": {handle.name: handle.steps for handle in handles}})
        )
        sys.stdout.flush()
        Killing.armed = True
        pool.save()


def saved(pool: Pool, directory: Path) -> dict[str, int]:
    counts = dict(pool.save())
    jobs = json.loads((directory / "pool.json").read_text())["jobs"]
    for name in ("function", "short"):
        read = tf.train.load_checkpoint(str(directory / jobs[name]["prefix"]))
        assert read.get_tensor("count/.ATTRIBUTES/VARIABLE_VALUE") == jobs[name]["steps"]
    assert counts.items() <= {name: job["steps"] for name, job in jobs.items()}.items()
    time.sleep(0.05)
    return counts


def after(handles: Any, steps: int) -> None:
    end = time.monotonic() + SECONDS
    while any(handle.steps < steps for handle in handles):
        assert time.monotonic() < end
        assert not any(handle.ended and handle.result().error for handle in handles)
        time.sleep(0.005)


def resume(directory: Path) -> None:
    """All of them, one that is not in the checkpoint, and after that what is refused."""
    jobs = {**made(), "new": Counted(7)}
    fed = {**{name: data(name) for name in KINDS}, "new": batches(7, SHORT)}
    with Pool(ROOM, checkpoints=directory) as pool:
        handles = pool.add_all(
            [
                Job(name, kind.step, map(kind.batch, fed[name]), checkpoint=kind.saved())
                for name, kind in jobs.items()
            ]
        )
    results = {handle.name: handle.result() for handle in handles}
    kinds = {**{name: kind for name, (kind, _) in KINDS.items()}, "new": Counted}
    alone = {
        name: kind(7 if name == "new" else list(KINDS).index(name)).alone(fed[name])
        for name, kind in kinds.items()
    }
    sys.stdout.write(
        json.dumps(
            {
                "errors": {name: str(result.error) for name, result in results.items() if result.error},
                "steps": {name: result.steps for name, result in results.items()},
                "resumed": {name: result.resumed_after for name, result in results.items()},
                "equal": {
                    name: losses(result.values) == alone[name][result.resumed_after :]
                    for name, result in results.items()
                },
                "variables": equal_variables(jobs, fed),
                "all": STEPS,
                "made": {name: len(result.values) for name, result in results.items()},
                "folders": sorted(path.name for path in directory.iterdir()),
                "named": named(directory),
                "refused": refused(directory),
                "interrupted": interrupted(directory.with_name("interrupted")),
            }
        )
    )


def equal_variables(jobs: dict[str, Any], fed: dict[str, list[Any]]) -> bool:
    """At the end of a job, against one that trained alone."""
    twin = Counted(list(KINDS).index("function"))
    twin.alone(fed["function"])
    pairs = zip(jobs["function"].variables, twin.variables, strict=True)
    return all(np.array_equal(one.numpy(), other.numpy()) for one, other in pairs)


def named(directory: Path) -> list[str]:
    """What the directory should hold."""
    jobs = json.loads((directory / "pool.json").read_text())["jobs"]
    return sorted({"pool.json", *[job["prefix"].partition("/")[0] for job in jobs.values()]})


def interrupted(directory: Path) -> list[int]:
    """How many steps a job had made when Ctrl-C came, and of how many its checkpoint is."""
    model = Counted(9)
    try:
        with Pool(ROOM, checkpoints=directory) as pool:
            handle = pool.add(Job("endless", model.step, cycle(batches(9, 2)), checkpoint=model.saved()))
            after([handle], SHORT)
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        saved = json.loads((directory / "pool.json").read_text())["jobs"]["endless"]
        read = tf.train.load_checkpoint(str(directory / saved["prefix"]))
        return [handle.steps, saved["steps"], int(read.get_tensor("count/.ATTRIBUTES/VARIABLE_VALUE"))]


def flip(file: Path) -> None:
    """A bit of the first variable that it holds."""
    content = bytearray(file.read_bytes())
    content[1000] ^= 1
    file.write_bytes(content)


def refused(directory: Path) -> dict[str, str]:
    """What is said where a checkpoint is not that of the job, or of the pool."""
    said: dict[str, str] = {}
    try:
        Pool(ROOM // 2, checkpoints=directory)
    except CheckpointError as error:
        said["limit"] = str(error)
    saved = json.loads((directory / "pool.json").read_text())["jobs"]
    flip(directory / f"{saved['new']['prefix']}.data-00000-of-00001")
    wide = [tf.Variable(np.zeros((WIDTH, 2), np.float32))]
    step = tf.function(lambda batch: tf.reduce_sum(batch @ wide[0]))
    fewer, right = Counted(1), Counted(2)
    others = {
        "function": tf.train.Checkpoint(weights=wide),
        "short": tf.train.Checkpoint(weights=fewer.variables),
        "new": right.saved(),
    }
    ones = [np.ones((BATCH, WIDTH), np.float32)] * STEPS
    with Pool(ROOM, checkpoints=directory) as pool:
        handles = [pool.add(Job(name, step, ones, checkpoint=given)) for name, given in others.items()]
        wrong = {
            "none": Job("keras", step, ones),
            "number": Job("k", step, ones, checkpoint=7),
            "no saver": Job("k", SessionStep(None, None), ones, checkpoint=others["short"]),
        }
        for case, job in wrong.items():
            try:
                pool.add(job)
            except TfwaveError as error:
                said[case] = f"{type(error).__name__}: {error}"
        for handle in handles:
            handle.result(SECONDS)
        ballast: list[Any] = []
        while pool_in_use() < ROOM - (2 << 20):
            ballast.append(tf.zeros([1 << 20], tf.int8))
        handles.append(pool.add(Job("session", Momentum(2).step, ones, checkpoint=Momentum(2).saved())))
        said["full"] = f"{type(handles[-1].result().error).__name__}: {handles.pop().result().error}"
        del ballast
    for handle in handles:
        result = handle.result()
        said[handle.name] = f"{type(result.error).__name__}: {result.error}; {result.steps} steps"
    with Pool(ROOM) as pool:
        try:
            pool.save()
        except CheckpointError as error:
            said["nowhere"] = str(error)
    return said


if __name__ == "__main__":
    {"save": save, "resume": resume}[sys.argv[1]](Path(sys.argv[2]))
