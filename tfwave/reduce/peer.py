"""A member as its coordinator knows it."""

import queue
import time
from dataclasses import dataclass, field

from tfwave.proto.reduce_pb2 import End, Hello, Order, Report, Tick


@dataclass(eq=False)
class Peer:
    """What a member last said of itself, and the orders that are on their way to it.

    Attributes:
        number: the how manieth that came; no two are the same.
        ready_since: when its oldest gradient was first heard of, by `time.monotonic`; None: it has none.
        attempt: the last reduce that ended at it, well (`done`) or not.
        gave: gradients in that reduce; 0 once it knows what came of it.
        full: it keeps as many sums as it may.
        silent: how often in a row it was found that it had said nothing.
        visit: its newest visit to other groups that it has something of, from 1.
        settled: the last such visit of which all members have what it brought.
        steps: seconds of its steps since the last reduce that counted.
    """

    number: int
    hello: Hello
    orders: "queue.SimpleQueue[Order | None]" = field(default_factory=queue.SimpleQueue["Order | None"])
    ready_since: float | None = None
    drained: bool = False
    has_state: bool = False
    attempt: int = 0
    done: bool = False
    gave: int = 0
    halted: bool = False
    trouble: str = ""
    full: bool = False
    silent: int = 0
    visit: int = 0
    settled: int = 0
    steps: list[float] = field(default_factory=list[float])

    @property
    def place(self) -> tuple[int, int]:
        """Where it is in the ring, among others."""
        return self.hello.rank, self.number

    @property
    def may_give(self) -> bool:
        """Whether it has a gradient, or may have one yet."""
        return self.has_state and not (self.drained and self.ready_since is None)

    @property
    def brings(self) -> bool:
        """Whether it has something of other groups that its own lacks."""
        return self.visit > self.settled

    def is_same(self, other: "Peer") -> bool:
        """Is it the same process, on another line?"""
        return self.hello.address == other.hello.address

    def note(self, report: Report, aborted: int) -> None:
        """Take in what it says; what it gave to the reduce `aborted` it has back, whether it knows yet or not."""
        if not (report.held or (report.gave and report.attempt == aborted)):
            self.ready_since = None
        elif self.ready_since is None:
            self.ready_since = time.monotonic()
        self.silent = 0
        self.drained = report.drained
        self.has_state = self.has_state or report.has_state  # the first member has it before it knows
        self.halted = self.halted or report.halted
        self.attempt, self.done, self.gave = report.attempt, report.done, report.gave
        self.trouble, self.full, self.visit = report.trouble, report.full, report.visit
        if report.step_seconds > 0:
            self.steps.append(report.step_seconds)

    def has_back(self) -> None:
        """The reduce that it last reported on came to nothing."""
        if self.gave and self.ready_since is None:
            self.ready_since = time.monotonic()

    def tick(self, waited: float) -> Tick:
        """Its part in the reduce that it last reported on, which counts; its steps begin anew."""
        steps, self.steps = self.steps, []
        return Tick(rank=self.hello.rank, gave=self.gave, waited_seconds=waited, step_seconds=steps)

    def tell(self, order: Order) -> None:
        """Send an order."""
        self.orders.put(order)

    def end(self, reason: str) -> None:
        """Send the last one."""
        self.orders.put(Order(end=End(reason=reason)))
        self.orders.put(None)
