"""What the reduces of a training were like for each worker, by what their verdicts say."""

import statistics
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from tfwave.proto.reduce_pb2 import Tick
from tfwave.reduce.held import Local

RECENT_STEPS = 10_000
"""Steps of each worker whose times are kept, the newest."""
RECENT_REDUCES = 200
"""Reduces that are kept one by one, the newest."""


@dataclass
class WorkerPart:
    """One worker's part in the reduces that counted. Times in seconds.

    Attributes:
        rank: its number.
        reduces: in which it took part, with a gradient or without.
        joined: to which it gave something.
        weight: of what it gave: one for each mean of its gradients, or one for each gradient of a sum.
        last: in how many of those it came last.
        kept_waiting: how long in all the first one waited for it then.
        waited, longest_wait: its gradients for their reduce, in all and at most.
        made: its steps; `steps` has the times of the newest.
    """

    rank: int
    reduces: int = 0
    joined: int = 0
    weight: float = 0.0
    last: int = 0
    kept_waiting: float = 0.0
    waited: float = 0.0
    longest_wait: float = 0.0
    made: int = 0
    steps: deque[float] = field(default_factory=lambda: deque[float](maxlen=RECENT_STEPS))

    @property
    def step(self) -> float | None:
        """The median step; None before there is one."""
        return statistics.median(self.steps) if self.steps else None

    @property
    def mean_wait(self) -> float:
        """Of a gradient for its reduce."""
        return self.waited / self.joined if self.joined else 0.0


@dataclass(frozen=True)
class Seen:
    """A copy of a record: the workers by rank, and the newest reduces, by number, with all their ticks."""

    workers: Sequence[WorkerPart]
    recent: Sequence[tuple[int, Sequence[Tick]]]
    complete: int

    def share(self, worker: WorkerPart) -> float:
        """Of the weight of all that was summed, that of a worker's gradients."""
        return worker.weight / (sum(other.weight for other in self.workers) or 1.0)


class ReduceRecord:
    """Adds up verdicts; any thread may note one, or look."""

    def __init__(self, local: Local) -> None:
        """Of members that make one gradient of several so."""
        self._local = local
        self._lock = threading.Lock()
        self._workers: dict[int, WorkerPart] = {}
        self._recent: deque[tuple[int, Sequence[Tick]]] = deque(maxlen=RECENT_REDUCES)
        self._complete = 0

    def note(self, version: int, ticks: Iterable[Tick]) -> None:
        """Add the reduce of this number."""
        found = sorted(ticks, key=lambda tick: tick.rank)
        with self._lock:
            self._recent.append((version, found))
            self._complete += bool(found) and all(tick.gave for tick in found)
            for tick in found:
                self._add(self._workers.setdefault(tick.rank, WorkerPart(tick.rank)), tick)
            self._note_last([tick for tick in found if tick.gave])

    def seen(self) -> Seen:
        """All so far; `complete` are the reduces to which every member gave something."""
        with self._lock:
            workers = [self._workers[rank] for rank in sorted(self._workers)]
            copies = [replace(worker, steps=worker.steps.copy()) for worker in workers]
            return Seen(copies, tuple(self._recent), self._complete)

    def _add(self, worker: WorkerPart, tick: Tick) -> None:
        worker.reduces += 1
        worker.made += len(tick.step_seconds)
        worker.steps.extend(tick.step_seconds)
        if tick.gave:
            worker.joined += 1
            worker.weight += 1 if self._local == "linear" else tick.gave
            worker.waited += tick.waited_seconds
            worker.longest_wait = max(worker.longest_wait, tick.waited_seconds)

    def _note_last(self, gave: Sequence[Tick]) -> None:
        """Of several that waited equally short, the one of the lowest rank; one alone keeps nobody waiting."""
        if len(gave) > 1:
            waits = [tick.waited_seconds for tick in gave]
            last = self._workers[gave[waits.index(min(waits))].rank]
            last.last += 1
            last.kept_waiting += max(waits) - min(waits)
