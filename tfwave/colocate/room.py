"""The ledger of a pool, opened anew whenever what its jobs hold has changed."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import combinations

from tfwave.colocate.measure import ledger_job
from tfwave.colocate.shape import Shape
from tfwave.errors import EnforcerError
from tfwave.memory.slots import Rooms, room
from tfwave.plan.groups import GroupedJob
from tfwave.runtime.ledger import Ledger, LedgerFigures
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

    def open(
        self, shapes: Sequence[Shape], turns: Iterable[tuple[str, str]], wait_seconds: float
    ) -> EnforcerError | None:
        """Take in shapes with barriers, each job's resident bytes once; why the last has no room, if it is so."""
        refusal = self._open(shapes, wait_seconds)
        if refusal is not None:
            self._open(shapes[:-1], wait_seconds)
        kept_apart = set(map(frozenset, turns))
        for one, other in combinations(shapes, 2):
            if frozenset({one.life.job.name, other.life.job.name}) in kept_apart:
                self._ledger.take_turns(one.name, other.name)
        return refusal

    def close(self) -> None:
        """Nothing asks any more; another ledger can be opened."""
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

    def leave(self, shapes: Iterable[Shape]) -> None:
        """Forget them."""
        for shape in shapes:
            self._ledger.remove(shape.name)

    def figures(self) -> LedgerFigures:
        """Of all ledgers so far."""
        if self._closed is None or not self._ledger.is_open:
            return self._closed or self._ledger.figures()
        return self._closed.then(self._ledger.figures())

    def _open(self, shapes: Sequence[Shape], wait_seconds: float) -> EnforcerError | None:
        """The first refusal; the others are in."""
        self.close()
        jobs = list(_counted_once(shapes))
        self._ledger = open_ledger([job for job, _ in jobs], self.limit - pool_in_use(), wait_seconds)
        refusals: list[EnforcerError] = []
        for job, priority in jobs:
            try:
                self._ledger.add(ledger_job(job, priority))
            except EnforcerError as error:
                refusals.append(error)
        return next(iter(refusals), None)


def _counted_once(shapes: Iterable[Shape]) -> Iterator[tuple[GroupedJob, int]]:
    """With priorities; of the shapes of a job, the one with the most resident bytes has them."""
    with_barriers = [(shape.life.job, shape.barred) for shape in shapes if shape.barred is not None]
    most: dict[str, GroupedJob] = {}
    for job, barred in with_barriers:
        most[job.name] = max(most.get(job.name, barred), barred, key=lambda found: found.resident)
    for job, barred in with_barriers:
        yield barred if barred is most[job.name] else replace(barred, resident=0), job.priority
