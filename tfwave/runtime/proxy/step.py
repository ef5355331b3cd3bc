"""What is known of a live step: the counters of its channels, and the transfers that wait for them."""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from tfwave.graph.names import Channel

WHOLE_PLAN = 0
"""The graph of a run where no graph is known: all that the plan says."""

Go = Callable[[], None]


@dataclass(frozen=True)
class Arrival:
    """A tensor that is ready to leave; `dead`: of an untaken branch, so that it has a turn but no bytes."""

    step: int
    channel: Channel
    edge: str
    bytes: int
    dead: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether it stands for a control edge: nothing, unless an untaken branch made it so."""
        return self.bytes == 0 and not self.dead


@dataclass(frozen=True)
class Transfer:
    """An arrival in the terms of the plans."""

    step: int
    channel: int
    rank: int
    bytes: int


class Held(NamedTuple):
    """A transfer that waits; they compare by rank, and by number those that came twice."""

    rank: int
    number: int
    transfer: Transfer
    arrival: Arrival
    go: Go


@dataclass(eq=False)
class Queue:
    """The transfers of one channel that wait, and the counter that they wait for."""

    run: "Run"
    size: int = 0
    next: int = 0
    released: bool = False
    """No rank counts any more."""
    draining: bool = False
    """One thread at a time hands off."""
    held: list[Held] = field(default_factory=list[Held])

    @property
    def is_ready(self) -> bool:
        """Whether the first in the queue may leave."""
        return bool(self.held) and (self.released or self.held[0].rank <= self.next)

    def push(self, held: Held) -> None:
        """Let a transfer wait."""
        heapq.heappush(self.held, held)

    def pop(self) -> Held:
        """Take the one of lowest rank."""
        return heapq.heappop(self.held)


@dataclass(eq=False)
class Run:
    """One graph in one step; or, where no graph is known, all that the plan says."""

    step: "Step"
    graph: int
    queues: dict[int, Queue] = field(default_factory=dict[int, Queue])
    """By channel."""
    incomplete: int = 0
    """Queues whose counter has not reached its end."""

    @property
    def holds_anything(self) -> bool:
        return any(queue.held for queue in self.queues.values())

    def add_queue(self, channel: int, size: int) -> Queue:
        """A queue that has to hand off `size` transfers."""
        self.incomplete += 1
        queue = self.queues[channel] = Queue(self, size)
        return queue


@dataclass(eq=False)
class Step:
    """A step of which something is still to come; `last` is the time of its last hand-off, or of its begin."""

    id: int
    generation: int
    """The generation of the plans in force when it began."""
    last: float
    runs: dict[int, Run] = field(default_factory=dict[int, Run])
    """By graph."""
    early: list[Held] = field(default_factory=list[Held])
    """What came before the step is known to run its graph."""

    @property
    def holds_anything(self) -> bool:
        return bool(self.early) or any(run.holds_anything for run in self.runs.values())
