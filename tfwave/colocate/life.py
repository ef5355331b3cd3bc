"""A job from its first batch to its last, or to its first error."""

import logging
import time
from collections.abc import Callable
from typing import Any

from tfwave.colocate.job import Job, SessionStep
from tfwave.colocate.results import JobResult
from tfwave.errors import EnforcerError, TfwaveError
from tfwave.runtime.live.batches import arguments, kind_of, out_of_pool
from tfwave.runtime.live.instances import FunctionInstance, SessionInstance
from tfwave.runtime.live.retrace import is_function

Run = Callable[..., Any]
"""Makes a step with the parts of a batch."""

_log = logging.getLogger("tfwave")


class Life:
    """Takes a job's steps one by one; one thread at a time."""

    def __init__(self, job: Job) -> None:
        """Nothing has run.

        Raises:
            EnforcerError: its step is none.
        """
        if not (isinstance(job.step, SessionStep) or is_function(job.step)):
            raise EnforcerError(
                f"the step of the job '{job.name}' is {job.step!r}: give a tf.function, or a "
                "tfwave.colocate.SessionStep"
            )
        self.job = job
        self.ended = False
        self.error: Exception | None = None
        self.steps = 0
        self._batches = iter(job.batches)
        self._kind: tuple[str, ...] | None = None
        self._values: list[Any] = []
        self._seconds = 0.0

    def instance(self) -> FunctionInstance | SessionInstance:
        """The step, in an instance of its own."""
        step = self.job.step
        if isinstance(step, SessionStep):
            return SessionInstance(step.session, step.fetches, step.feeds)
        return FunctionInstance(step)

    def advance(self, run: Run) -> bool:
        """Make a step with the next batch; False if there is none left, or it failed, which ends the job."""
        try:
            taken = not self.ended and self._advance(run)
        except Exception as err:  # the job's own code: any
            self.fail(err)
            return False
        self.ended = not taken
        return taken

    def fail(self, error: Exception) -> None:
        """End the job, and say so."""
        self.ended, self.error = True, error
        _log.warning("tfwave: the job '%s' failed after %d steps: %s", self.job.name, self.steps, error)

    def result(self, waited_seconds: float) -> JobResult:
        """So far."""
        return JobResult(self.steps, tuple(self._values), self._seconds, waited_seconds, self.error)

    def _advance(self, run: Run) -> bool:
        for batch in self._batches:
            parts = arguments(batch)
            self._check(kind_of(parts))
            begin = time.perf_counter()
            self._values.append(out_of_pool(run(*parts)))
            self._seconds += time.perf_counter() - begin
            self.steps += 1
            return True
        return False

    def _check(self, kind: tuple[str, ...]) -> None:
        """What a batch of another shape holds was not measured."""
        self._kind = self._kind or kind
        if kind != self._kind:
            raise TfwaveError(
                f"batch {self.steps + 1} of the job '{self.job.name}' is ({', '.join(kind)}), its first was "
                f"({', '.join(self._kind)}): make all alike, as with drop_remainder=True"
            )
