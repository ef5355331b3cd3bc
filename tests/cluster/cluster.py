"""A cluster of real TensorFlow servers in processes of their own, on loopback."""

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
START_SECONDS = 90


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(contextlib.closing(socket.socket())) for _ in range(count)]
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [s.getsockname()[1] for s in sockets]


def wait_until(condition: Callable[[], bool], seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition was not met in time"
        time.sleep(0.01)


@dataclass
class Task:
    """A process; `control` holds the control addresses of its hooked servers."""

    process: subprocess.Popen[str]
    control: list[str] = field(default_factory=list)

    def read(self) -> None:
        """Wait for what it says next."""
        assert self.process.stdout
        end = time.monotonic() + START_SECONDS
        while select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))[0]:
            line = self.process.stdout.readline()
            assert line, f"the task ended with {self.process.wait()}"
            if line.startswith("TASK "):
                self.control = json.loads(line[5:])["control"]
                return
        raise AssertionError("the task said nothing in time")

    def wrap(self) -> None:
        assert self.process.stdin
        self.process.stdin.write("wrap\n")
        self.process.stdin.flush()
        self.read()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def start(cluster: dict[str, list[str]], job: str, tasks: list[int], hooked: bool) -> Task:
    request = json.dumps({"cluster": cluster, "job": job, "tasks": tasks, "hooked": hooked})
    environment = os.environ | {
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "PYTHONPATH": str(ROOT),
        "CUDA_VISIBLE_DEVICES": "",
    }
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).parent / "task.py"), request],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    return Task(process)


@dataclass
class Cluster:
    """Tasks ps0; ps1 and ps2 in one process; ps3 unhooked at first; two unhooked workers."""

    spec: dict[str, list[str]]
    ps0: Task
    ps12: Task
    ps3: Task
    workers: list[Task]

    def target(self, worker: int) -> str:
        return "grpc://" + self.spec["worker"][worker]


@contextlib.contextmanager
def running() -> Iterator[Cluster]:
    addresses = [f"127.0.0.1:{port}" for port in free_ports(6)]
    spec = {"ps": addresses[:4], "worker": addresses[4:]}
    wanted: list[tuple[Any, ...]] = [("ps", [0], True), ("ps", [1, 2], True), ("ps", [3], False)]
    wanted += [("worker", [0], False), ("worker", [1], False)]
    tasks = [start(spec, *w) for w in wanted]
    try:
        for task in tasks:
            task.read()
        yield Cluster(spec, *tasks[:3], tasks[3:])
    finally:
        for task in tasks:
            task.kill()
