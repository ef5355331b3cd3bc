"""Real servers and workers, and a chief in a process of its own, which runs scenarios and tells what it saw."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.cluster.cluster import Task, free_addresses, start
from tests.cluster.speaker import Speaker, spawn

PROCESSES = {"servers": ("ps", [0, 1]), "first": ("worker", [0]), "second": ("worker", [1])}


class Chief(Speaker):
    """A process that runs scenarios."""

    def read(self) -> dict[str, Any]:
        said = self.hear()
        assert "error" not in said, said["error"]
        return said

    def run(self, scenario: str, *helpers: Callable[[], None], **request: Any) -> Any:
        """Run a scenario; at each question that it asks, the next helper does what is asked."""
        self.tell({"scenario": scenario, **request})
        for helper in helpers:
            assert "question" in self.read()
            helper()
            self.tell({})
        return self.read()["answer"]


@dataclass
class ChiefCluster:
    """Two parameter servers, some workers and a chief."""

    scenarios: str
    spec: dict[str, list[str]]
    tasks: dict[str, Task] = field(default_factory=dict)
    chiefs: list[Chief] = field(default_factory=list)

    def start(self, name: str) -> None:
        job, indices = PROCESSES[name]
        self.tasks[name] = start(self.spec, job, indices, None)

    def restart(self, name: str) -> None:
        self.start(name)
        self.tasks[name].wait()

    def start_chief(self) -> None:
        self.chiefs.append(Chief(spawn("tests.cluster.scenario_chief", self.scenarios)))

    def connect(self) -> None:
        self.chief.tell(self.spec)
        assert self.chief.read() == {"answer": "ready"}

    @property
    def chief(self) -> Chief:
        return self.chiefs[-1]


@contextmanager
def running(scenarios: str, workers: int) -> Iterator[ChiefCluster]:
    """`scenarios` is the module whose functions the chief runs."""
    addresses = free_addresses(3 + workers)
    cluster = ChiefCluster(scenarios, {"ps": addresses[:2], "chief": addresses[2:3], "worker": addresses[3:]})
    try:
        cluster.start_chief()
        for name in list(PROCESSES)[: 1 + workers]:
            cluster.start(name)
        for task in cluster.tasks.values():
            task.wait()
        cluster.connect()
        yield cluster
    finally:
        for process in (*cluster.chiefs, *cluster.tasks.values()):
            process.kill()
