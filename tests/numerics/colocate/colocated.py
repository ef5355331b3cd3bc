"""Jobs beside each other in a limited pool, against the same jobs alone; prints what came out as JSON.

A process of its own: the pool is there once for all that a process runs.
"""

import gc
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np

from tests.events import told_events
from tests.numerics.colocate.colocated_jobs import (
    BATCH,
    WIDTH,
    Keras,
    Session,
    Trained,
    batches,
    forget_peak,
    losses,
    peak,
)
from tfwave.colocate import Job, Results, run
from tfwave.plan.io import load_plan
from tfwave.runtime.group_barriers import Watch
from tfwave.runtime.live.grappler import in_grappler
from tfwave.runtime.pool import pool_in_use
from tfwave.sizes import parse_size

SHARED = "75MiB"
"""Two whole steps have no room in it beside each other, groups of them have: with 69 MiB a step does not fit, with
80 steps may run whole, one after the other."""
STEPS, FAILS_AFTER, FEW_STEPS = 12, 8, 6
MB = 1 << 20


def failing(data: Sequence[np.ndarray]) -> Iterator[np.ndarray]:
    yield from data[:FAILS_AFTER]
    raise ValueError("no more data")


def beside() -> dict[str, Any]:
    """Jobs that end with their batches, that fail, and that end too soon to be planned."""
    made = {"one": (Trained, 1), "two": (Trained, 2), "session": (Session, 3), "keras": (Keras, 7)}
    data = {name: batches(seed, STEPS + 2) for name, (_, seed) in made.items()}
    alone = {name: kind(seed).alone(data[name]) for name, (kind, seed) in made.items()}
    gc.collect()
    jobs = {name: kind(seed) for name, (kind, seed) in made.items()}
    before = {name: job.alone(data[name][:1]) for name, job in jobs.items()}
    breaks, mixed, short = Trained(4), Trained(5), Trained(6)
    odd = [*batches(5, 7), np.zeros((3, WIDTH), np.float32)]
    forget_peak()
    results = run(
        [
            *[Job(name, job.step, map(job.batch, data[name][1:-1])) for name, job in jobs.items()],
            Job("breaks", breaks.step, failing(batches(4, STEPS))),
            Job("mixed", mixed.step, odd),
            Job("short", short.step, batches(6, 2)),
        ],
        SHARED,
        report_dir=(left := tempfile.mkdtemp()),
    )
    most = peak()
    with in_grappler(watch := Watch()):
        after = {name: job.alone(data[name][-1:]) for name, job in jobs.items()}
    assert results.plan is not None
    assert results.plan.groups is not None
    planned = [each.job for each in results.plan.groups.jobs]
    assert results.figures is not None
    plan = load_plan(Path(left, "colocation.plan.json"))
    pages = sorted(path.name for path in Path(left).glob("colocation.*"))
    events = {plugin: list(tags) for plugin, tags in told_events(Path(left)).items() if tags}
    shutil.rmtree(left)
    return {
        "left": [plan == results.plan, pages, events],
        "made": STEPS,
        "fails after": FAILS_AFTER,
        "alone": alone,
        "beside": {name: before[name] + losses(results[name].values) + after[name] for name in made},
        "steps": {name: result.steps for name, result in results.items()},
        "seconds": {name: [result.waited_seconds, result.seconds] for name, result in results.items()},
        "errors": {name: str(r.error) for name, r in results.items() if r.error is not None},
        "optimized again": len(watch.seen),
        "shares": [job.compute_share for job in planned],
        "groups": {job.name: len(job.groups) for job in planned},
        "peak": most,
        "limit": parse_size(SHARED),
        "admitted": results.figures.admitted,
        "released": results.figures.released,
        "waited": [results.figures.waited_seconds, results.figures.longest_wait_seconds],
    }


def planned_names(results: Results) -> list[str]:
    groups = results.plan.groups if results.plan else None
    return [each.job.name for each in groups.jobs] if groups else []


def without_room() -> dict[str, Any]:
    """Beside a job of a higher priority one has no room, and one would slow it down; both go on alone."""
    rows = {"huge": 4 * BATCH, "large": 2 * BATCH, "small": BATCH}
    data = {name: batches(8, FEW_STEPS, count) for name, count in rows.items()}
    jobs = {name: Trained(8) for name in rows}
    first = {"small": {"priority": 1, "slowed_at_most": 0.25}}
    results = run(
        [Job(name, job.step, data[name], **first.get(name, {})) for name, job in jobs.items()],
        pool_in_use() + 40 * MB,
    )
    made = {name: result.steps for name, result in results.items()}
    found = {name: losses(result.values) for name, result in results.items()}
    return {
        "steps": made,
        "all": FEW_STEPS,
        "errors": {name: str(result.error) for name, result in results.items()},
        "planned": planned_names(results),
        "found": {name: found[name] + job.alone(data[name][made[name] :]) for name, job in jobs.items()},
        "alone": {name: Trained(8).alone(own) for name, own in data.items()},
    }


class Endless:
    """Batches over and over; after some of them, Ctrl-C is pressed."""

    def __init__(self, data: Sequence[np.ndarray], pressed_after: int | None = None) -> None:
        self.data = data
        self.pressed_after = pressed_after
        self.taken = 0

    def __iter__(self) -> Iterator[np.ndarray]:
        for batch in cycle(self.data):
            self.taken += 1
            yield batch
            if self.taken == self.pressed_after:
                os.kill(os.getpid(), signal.SIGINT)


def interrupted(pressed_after: int) -> dict[str, Any]:
    """Endless trainings; each makes two more steps alone when they were stopped."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    jobs = {"one": Trained(1), "two": Trained(2)}
    data = {"one": Endless(batches(1, 3), pressed_after), "two": Endless(batches(2, 3))}
    raised = False
    try:
        run([Job(name, job.step, data[name]) for name, job in jobs.items()])
    except KeyboardInterrupt:
        raised = True
    left = [thread.name for thread in threading.enumerate() if thread.name.startswith("tfwave-")]
    steps = {name: own.taken for name, own in data.items()}
    fed = {name: list(islice(cycle(data[name].data), steps[name] + 2)) for name in jobs}
    alone = {"one": Trained(1), "two": Trained(2)}
    return {
        "raised": raised,
        "left": left,
        "steps": steps,
        "found": [job.alone(fed[name][-2:]) for name, job in jobs.items()],
        "alone": [job.alone(fed[name])[-2:] for name, job in alone.items()],
    }


def main() -> None:
    found = beside()
    found["without room"] = without_room()
    found["interrupted"] = {"measured": interrupted(3), "beside": interrupted(9)}
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
