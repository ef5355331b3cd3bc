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
    threads = [
        threading.Thread(
            target=_live, args=(ledger, job, stopping), name=f"tfwave-{job.life.job.name}", daemon=True
        )
        for job in jobs
    ]
    for thread in threads:
        thread.start()
    try:
        _wait(threads, jobs)
    finally:
        stopping.set()
        _join(threads)


@contextmanager
def left_where_ended(ledger: Ledger, life: Life) -> Generator[None]:
    """Take a job that has ended in the block out of the ledger."""
    try:
        yield
    finally:
        if life.ended:
            ledger.remove(life.job.name)


def _live(ledger: Ledger, job: Barred, stopping: threading.Event) -> None:
    """The thread of a job."""

    def step(*batch: object) -> object:
        with ledger.step(job.life.job.name):
            return job.run(*batch)

    with left_where_ended(ledger, job.life):
        while not stopping.is_set() and job.life.advance(step):
            pass


def _wait(threads: Sequence[threading.Thread], jobs: Sequence[Barred]) -> None:
    said = time.monotonic()
    while alive := [thread for thread in threads if thread.is_alive()]:
        alive[0].join(_TICK_SECONDS)
        if time.monotonic() - said > _SAY_SECONDS:
            said = time.monotonic()
            steps = ", ".join(f"{job.life.job.name} {job.life.steps}" for job in jobs)
            _log.info("tfwave: steps so far: %s", steps)


def _join(threads: Sequence[threading.Thread]) -> None:
    """Each ends with its step."""
    end = time.monotonic() + _STOP_SECONDS
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    stuck = [thread.name for thread in threads if thread.is_alive()]
    if stuck:
        raise EnforcerError(f"a step of {', '.join(stuck)} does not end: it is left behind")
