"""The ledger of a pool, opened anew whenever what its jobs hold has changed."""

import threading
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from itertools import combinations

from tfwave.colocate.latency import kept_bytes
from tfwave.colocate.measure import ledger_job
from tfwave.colocate.shape import Shape
from tfwave.errors import EnforcerError, PlanError
from tfwave.memory.slots import Rooms, room
from tfwave.plan.groups import GroupedJob
from tfwave.runtime.ledger import Ledger, LedgerFigures, LedgerJob
from tfwave.runtime.pool import pool_in_use


def open_ledger(jobs: Sequence[GroupedJob], free: int, wait_seconds: float) -> Ledger:
    """A ledger of so many bytes, of which a part is kept: see `Pool`, and the margins of `Rooms`.

    There may be less than was planned with. So the largest step may take, alone, as much as one that is not cut.
    """
    rooms = Rooms.of(jobs, free)
    residents = sum(job.resident for job in jobs)
    largest = residents + max((job.needs[0] for job in jobs), default=0)
    alone = max(rooms.alone, min(largest, room(free, 1))) - residents
    return Ledger(max(1, alone), max(1, rooms.shared - residents), wait_seconds)


class Room:
    """What jobs have of a pool. Only who is alone in the gate may `open` it."""

    def __init__(self, limit: int) -> None:
        """Nothing is in it.

        Raises:
            EnforcerError: the process has a ledger already.
        """
        self.limit = limit
        self._ledger = Ledger(1, 1)
        self._closed: LedgerFigures | None = None
        self._counting = threading.RLock()  # any thread may ask for figures, also while a ledger is closed
        self._inside: Set[Shape] = frozenset()

    def open(
        self, shapes: Sequence[Shape], turns: Iterable[tuple[str, str]], wait_seconds: float
    ) -> dict[Shape, PlanError]:
        """Take in shapes with barriers, each job's resident bytes once; those without room, and why.

        What is in the pool now counts as taken.
        """
        self.close()
        jobs = dict(_counted_once(shapes))
        free = self.limit - pool_in_use() - _kept(jobs)
        asking = [job for shape, job in jobs.items() if not shape.is_kept]
        self._ledger = open_ledger(asking, free, wait_seconds)
        refused: dict[Shape, PlanError] = {}
        for shape, job in jobs.items():
            try:
                self._ledger.add(_entry(shape, job))
            except EnforcerError as error:
                refused[shape] = PlanError(str(error))
        self._inside = jobs.keys() - refused.keys()
        kept_apart = set(map(frozenset, turns))
        for one, other in combinations([shape for shape in shapes if _takes_turns(shape)], 2):
            if frozenset({one.life.job.name, other.life.job.name}) in kept_apart:
                self._ledger.take_turns(one.name, other.name)
        return refused

    def has(self, shape: Shape) -> bool:
        """Do its groups ask?"""
        return shape in self._inside

    def remove(self, shape: Shape) -> None:
        """Let its groups pass until it is taken in again."""
        self._ledger.remove(shape.name)

    def close(self) -> None:
        """Nothing asks any more; another ledger can be opened."""
        self._inside = frozenset()
        with self._counting:
            if self._ledger.is_open:
                self._closed = self.figures()
                self._ledger.close()

    @contextmanager
    def step(self, shape: Shape) -> Generator[None]:
        """Around a step whose groups ask."""
        with self._ledger.step(shape.name):
            yield

    def waited_seconds(self, name: str) -> float:
        """What a shape has waited for."""
        return self.figures().waited_by_job.get(name, 0.0)

    def figures(self) -> LedgerFigures:
        """Of all ledgers so far."""
        with self._counting:
            if self._closed is None or not self._ledger.is_open:
                return self._closed or self._ledger.figures()
            return self._closed.then(self._ledger.figures())


def _takes_turns(shape: Shape) -> bool:
    """A background would keep the cores from the others that it takes turns with, or have none of them."""
    return not shape.is_kept and not shape.life.job.background


def _entry(shape: Shape, job: GroupedJob) -> LedgerJob:
    """A shape whose memory is kept asks for nothing."""
    entry = ledger_job(job, shape.life.job.rank)
    if not shape.is_kept:
        return entry
    return replace(entry, held=(0,) * len(entry.held), transients=(0,) * len(entry.transients))


def _kept(jobs: Mapping[Shape, GroupedJob]) -> int:
    """For the largest shape of each job whose memory is kept."""
    most: Counter[str] = Counter()
    for shape, job in jobs.items():
        if shape.is_kept:
            most[shape.life.job.name] = max(most[shape.life.job.name], kept_bytes(job))
    return most.total()


def _counted_once(shapes: Iterable[Shape]) -> Iterator[tuple[Shape, GroupedJob]]:
    """Of the shapes of a job, the one with the most resident bytes has them."""
    barred = [(shape, shape.barred) for shape in shapes if shape.barred is not None]
    most: dict[str, GroupedJob] = {}
    for shape, job in barred:
        name = shape.life.job.name
        most[name] = max(most.get(name, job), job, key=lambda found: found.resident)
    for shape, job in barred:
        yield shape, job if job is most[shape.life.job.name] else replace(job, resident=0)
