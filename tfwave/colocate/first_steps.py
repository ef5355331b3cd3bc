"""The first steps of one shape of a job, made as its batches come."""

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from tfwave.colocate.job import Job
from tfwave.colocate.life import Instance, Life, Run, Stepping
from tfwave.passes.base import Transform

Found = TypeVar("Found")


class FirstSteps(Generic[Found]):
    """What looks at a job's steps asks for the next one; a batch of its shape may be a while in coming.

    So it has a thread of its own, which makes the steps while the job's thread waits: one of them runs at a time.
    """

    def __init__(self, life: Life, find: Callable[[Stepping], Found | None]) -> None:
        """`find` makes steps of what it is given, until it knows; None if it does not come to know."""
        self.found: Found | None = None
        self.refusal: Exception | None = None
        self._asking = _Asking(life)
        self._find = find
        self._thread = threading.Thread(target=self._run, name=f"tfwave-{life.job.name}-first", daemon=True)

    def step(self, *batch: Any) -> Any:
        """Make a step, whatever it raises, or why none can be made at all; `settle` comes after it."""
        if self._thread.ident is None:
            self._thread.start()
            if not self._asking.asked.get():
                assert self.refusal is not None
                raise self.refusal
        return self._asking.answer(batch)

    def settle(self) -> bool:
        """Wait until another step is asked for; False if none is."""
        return self._asking.asked.get()

    def close(self) -> None:
        """There is no other batch."""
        if self._thread.is_alive():
            self._asking.batches.put(None)
            self._thread.join()

    def _run(self) -> None:
        try:
            self.found = self._find(self._asking)
        except Exception as error:
            self._asking.error = error
        self.refusal = self._asking.error
        self._asking.asked.put(False)


class _Asking:
    """To `find`, the job."""

    def __init__(self, life: Life) -> None:
        self.ended = False
        self.error: Exception | None = None
        self.asked: SimpleQueue[bool] = SimpleQueue()
        self.batches: SimpleQueue[tuple[Any, ...] | None] = SimpleQueue()
        self._made: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        self._life = life

    @property
    def job(self) -> Job:
        return self._life.job

    def instance(self) -> Instance:
        return self._life.instance()

    def rewritten(self, last: Transform) -> Transform:
        return self._life.rewritten(last)

    def advance(self, run: Run) -> bool:
        self.asked.put(True)
        batch = self.batches.get()
        self.ended = batch is None
        if batch is None:
            return False
        try:
            self._made.put((run(*batch), None))
        except BaseException as error:  # the job's own: any; its thread, which waits, raises it
            self.ended = True
            self._made.put((None, error))
        return not self.ended

    def fail(self, error: Exception) -> None:
        self.ended, self.error = True, error

    def answer(self, batch: tuple[Any, ...]) -> Any:
        self.batches.put(batch)
        value, error = self._made.get()
        if error is not None:
            raise error
        return value
