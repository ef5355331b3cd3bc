"""A parameter-server job in real processes: servers (two hooked, one stock), two hooked workers and a chief."""

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.cluster import cluster
from tests.cluster.cluster import Spec, free_addresses
from tests.cluster.speaker import Speaker, spawn

HOOKED = ("/job:ps/replica:0/task:0", "/job:ps/replica:0/task:1")
WORKERS = ("/job:worker/replica:0/task:0", "/job:worker/replica:0/task:1")
CHIEF = "/job:chief/replica:0/task:0"
STOCK = "/job:ps/replica:0/task:2"


@dataclass
class FunctionCluster:
    """`ps` and `workers` by task; ps 2 is stock."""

    spec: Spec
    ps: Sequence[Speaker]
    workers: list[Speaker]
    chief: Speaker


def start(spec: Spec, job: str, task: int) -> Speaker:
    """A hooked task."""
    hooked_tasks = [*HOOKED, *WORKERS] if job == "worker" else []
    request = {"cluster": spec, "job": job, "task": task, "hooked_tasks": hooked_tasks}
    return Speaker(spawn("tests.cluster.runtime.function_task", json.dumps(request)))


@contextlib.contextmanager
def running() -> Iterator[FunctionCluster]:
    addresses = free_addresses(6)
    spec = {"ps": addresses[:3], "worker": addresses[3:5], "chief": addresses[5:]}
    ps = [start(spec, "ps", 0), start(spec, "ps", 1), cluster.start(spec, "ps", [2], None)]
    workers = [start(spec, "worker", task) for task in range(2)]
    chief = Speaker(spawn("tests.cluster.runtime.function_chief", json.dumps({"cluster": spec})))
    try:
        for speaker in (*ps, *workers, chief):
            speaker.hear()
        yield FunctionCluster(spec, ps, workers, chief)
    finally:
        for speaker in (*ps, *workers, chief):  # a worker that was started again is among them
            speaker.kill()
