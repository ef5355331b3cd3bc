"""Jobs beside each other, each in a thread of its own."""

import logging
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tfwave.colocate.life import Life, Run
from tfwave.errors import EnforcerError
from tfwave.runtime.ledger import Ledger

_TICK_SECONDS = 0.2
_SAY_SECONDS = 10.0
_STOP_SECONDS = 120.0
_log = logging.getLogger("tfwave")


@dataclass(frozen=True)
class Barred:
    """A job, and its step with barriers."""

    life: Life
    run: Run


def train_beside(ledger: Ledger, jobs: Sequence[Barred]) -> None:
    """Let jobs that the ledger has make steps until they end; says now and then how far they are.

    Interrupted, it waits until each has ended its step.

    Raises:
        EnforcerError: then a step did not end in time.
    """
    stopping = threading.Event()
    threads = [_Thread(ledger, job, stopping) for job in jobs]
    try:
        for thread in threads:
            thread.start()
        _wait(threads, jobs)
    finally:
        stopping.set()
        _end([thread for thread in threads if thread.ident is not None])


@contextmanager
def left_where_ended(ledger: Ledger, life: Life) -> Generator[None]:
    """Take a job that has ended in the block out of the ledger."""
    try:
        yield
    finally:
        if life.ended:
            ledger.remove(life.job.name)


class _Thread(threading.Thread):
    """Of a job. It tells itself that it has ended: a `join` that is interrupted makes it look so before."""

    def __init__(self, ledger: Ledger, job: Barred, stopping: threading.Event) -> None:
        super().__init__(name=f"tfwave-{job.life.job.name}", daemon=True)
        self.ended = threading.Event()
        self._ledger = ledger
        self._job = job
        self._stopping = stopping

    def run(self) -> None:
        """Make steps."""
        try:
            with left_where_ended(self._ledger, self._job.life):
                while not self._stopping.is_set() and self._job.life.advance(self._step):
                    pass
        finally:
            self.ended.set()

    def _step(self, *batch: object) -> object:
        with self._ledger.step(self._job.life.job.name):
            return self._job.run(*batch)


def _wait(threads: Sequence[_Thread], jobs: Sequence[Barred]) -> None:
    said = time.monotonic()
    while alive := [thread for thread in threads if not thread.ended.is_set()]:
        alive[0].ended.wait(_TICK_SECONDS)
        if time.monotonic() - said > _SAY_SECONDS:
            said = time.monotonic()
            steps = ", ".join(f"{job.life.job.name} {job.life.steps}" for job in jobs)
            _log.info("tfwave: steps so far: %s", steps)


def _end(threads: Sequence[_Thread]) -> None:
    """Each ends with its step."""
    end = time.monotonic() + _STOP_SECONDS
    for thread in threads:
        if thread.ended.wait(max(0.0, end - time.monotonic())):
            thread.join()
    stuck = [thread.name for thread in threads if not thread.ended.is_set()]
    if stuck:
        raise EnforcerError(f"a step of {', '.join(stuck)} does not end: it is left behind")
