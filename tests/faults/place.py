"""Where the same training runs: servers that order by the hook or the proxy, and stock ones to compare with."""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.cluster.cluster import Spec, Task, free_addresses, start
from tests.faults.clock import WrongClock
from tests.faults.relay import Relay
from tfwave.runtime.control.client import ControlClient

ENFORCERS = ("hook", "proxy", None)
STOCK = "stock"


@dataclass
class Place:
    """A server and a worker, each a process that can be killed, stopped and started again."""

    enforcer: str | None
    spec: Spec
    links: dict[str, Relay] = field(default_factory=dict)
    """By which the other reaches each, if not directly."""
    tasks: dict[str, Task] = field(default_factory=dict)
    clock: WrongClock | None = None
    """Of the server."""
    order: ControlClient | None = None
    """Of what orders on the server."""

    @property
    def name(self) -> str:
        return self.enforcer or STOCK

    def target(self, worker: int) -> str:
        return "grpc://" + self.spec["worker"][worker]

    def start(self, *jobs: str) -> None:
        """Serve, and wait until all do."""
        for job in jobs:
            others = {other: [link.address] for other, link in self.links.items() if other != job}
            told = self.spec | others, job, [0], self.enforcer
            by_it = job == "ps" and self.clock
            self.tasks[job] = by_it.start(*told) if by_it else start(*told)
        for job in jobs:
            self.tasks[job].wait()
        if "ps" in jobs and self.enforcer:
            self._forget_order()
            self.order = ControlClient(self.tasks["ps"].control[0])

    def kill(self, *jobs: str) -> None:
        for job in jobs:
            self.tasks.pop(job).kill()

    def end(self) -> None:
        self._forget_order()
        self.kill(*self.tasks)
        for link in self.links.values():
            link.close()

    def _forget_order(self) -> None:
        if self.order:
            self.order.close()

    def stand_still(self, job: str, seconds: float) -> None:
        """Stop a process for a while, in which it does nothing and answers nothing."""
        pid = self.tasks[job].process.pid
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def place(enforcer: str | None, *, linked: bool = False, clock: WrongClock | None = None) -> Iterator[Place]:
    """`linked`: server and worker reach each other by links that can be broken."""
    ps, worker = free_addresses(2)
    made = Place(enforcer, {"ps": [ps], "worker": [worker]}, clock=clock)
    if linked:
        made.links = {"ps": Relay(ps), "worker": Relay(worker)}
    try:
        made.start("ps", "worker")
        yield made
    finally:
        made.end()
