"""A cluster of real TensorFlow servers in processes of their own, on loopback."""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.cluster.speaker import Speaker, spawn
from tests.ports import free_ports

Spec = dict[str, list[str]]


def free_addresses(count: int) -> list[str]:
    return [f"127.0.0.1:{port}" for port in free_ports(count)]


@dataclass
class Task(Speaker):
    """A process with some tasks of one job; `control` holds the control addresses of its servers."""

    control: list[str] = field(default_factory=list)

    def wait(self) -> None:
        """Until it serves."""
        self.control = self.hear()

    def wrap(self) -> None:
        """Hook the stock servers."""
        self.control = self.ask("wrap")


def start(spec: Spec, job: str, tasks: list[int], enforcer: str | None = "hook") -> Task:
    """Serve some tasks of a job in one process, with an enforcer ("hook" or "proxy") or stock (None)."""
    request = {"cluster": spec, "job": job, "tasks": tasks, "enforcer": enforcer}
    return Task(spawn("tests.cluster.task", json.dumps(request)))


@contextlib.contextmanager
def serving(*tasks: Task) -> Iterator[None]:
    """Wait for what was started, and kill it in the end."""
    try:
        for task in tasks:
            task.wait()
        yield
    finally:
        for task in tasks:
            task.kill()


@dataclass
class Cluster:
    """Processes of parameter servers, and workers."""

    spec: Spec
    ps: list[Task]
    workers: list[Task]

    def target(self, worker: int) -> str:
        return "grpc://" + self.spec["worker"][worker]


@contextlib.contextmanager
def hooked() -> Iterator[Cluster]:
    """Tasks ps 0; ps 1 and ps 2 in one process; ps 3 stock at first; a stock worker."""
    addresses = free_addresses(5)
    spec = {"ps": addresses[:4], "worker": addresses[4:]}
    ps = [start(spec, "ps", [0]), start(spec, "ps", [1, 2]), start(spec, "ps", [3], None)]
    workers = [start(spec, "worker", [0], None)]
    with serving(*ps, *workers):
        yield Cluster(spec, ps, workers)


@contextlib.contextmanager
def hooked_both_ways() -> Iterator[Cluster]:
    """A server and two workers, each hooked, in processes of their own."""
    addresses = free_addresses(3)
    spec = {"ps": addresses[:1], "worker": addresses[1:]}
    ps, *workers = [start(spec, *task, "hook") for task in (("ps", [0]), ("worker", [0]), ("worker", [1]))]
    with serving(ps, *workers):
        yield Cluster(spec, [ps], workers)


@contextlib.contextmanager
def enforced(enforcer: str) -> Iterator[Cluster]:
    """A server with an enforcer, and two workers: stock, but the first is behind a proxy where the server is."""
    first, *rest = free_addresses(3)
    spec = {"ps": [first], "worker": rest}
    ps = start(spec, "ps", [0], enforcer)
    proxy = "proxy" if enforcer == "proxy" else None
    workers = [start(spec, "worker", [0], proxy), start(spec, "worker", [1], None)]
    with serving(ps, *workers):
        yield Cluster(spec, [ps], workers)
