"""A job from its first batch to its last, or to its first error."""

import logging
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from dataclasses import replace
from itertools import count, islice
from typing import Any, Protocol

from tfwave.colocate.backgrounds import Held
from tfwave.colocate.job import Job, SessionStep
from tfwave.colocate.results import JobResult
from tfwave.errors import EnforcerError, origins
from tfwave.passes.base import Transform
from tfwave.passes.pipeline import Pipeline
from tfwave.runtime.live.batches import arguments
from tfwave.runtime.live.instances import FunctionInstance, SessionInstance
from tfwave.runtime.live.retrace import is_function
from tfwave.runtime.live.saved import ObjectState, SessionState, State
from tfwave.runtime.lowered import is_lowered

Run = Callable[..., Any]
"""Makes a step with the parts of a batch."""
Instance = FunctionInstance | SessionInstance
_Wanted = tuple[int, Any, Transform | None]
"""The number of a step, the step, and what rewrites it."""

_log = logging.getLogger("tfwave")


class Stepping(Protocol):
    """A job whose steps are made one by one."""

    ended: bool

    @property
    def job(self) -> Job:
        """Which."""
        ...

    def instance(self) -> Instance:
        """The step, in an instance of its own."""
        ...

    def rewritten(self, last: Transform) -> Transform:
        """What Grappler is to do with the graph of an instance: what the step needs, and `last` behind that."""
        ...

    def advance(self, run: Run) -> bool:
        """Make a step with the next batch; False if there is none left, or it failed, which ends the job."""
        ...

    def fail(self, error: Exception) -> None:
        """End the job."""
        ...


class Life:
    """Takes a job's steps one by one; one thread at a time.

    Attributes:
        job: which.
        state: what its steps change; None where the job does not say it.
        ended: it makes no other step.
        error: what ended it early.
        steps: so many are made.
        resumed_after: those of them that a checkpoint had.
        is_whole: it stands between two steps, with all that they changed: none is under way, and none has failed.
    """

    def __init__(self, job: Job) -> None:
        """Nothing has run.

        Raises:
            EnforcerError: its step is none, or its checkpoint none for such a step.
        """
        self.job = job
        self.state = _state(job)
        self.is_whole = False
        self.ended = False
        self.error: Exception | None = None
        self.steps = 0
        self.resumed_after = 0
        self._numbers = count()
        self._wanted: _Wanted = next(self._numbers), _checked(job, job.step), None
        self._made = self._wanted
        self._changing = threading.Lock()
        self._cancelled = False
        self._batches = iter(job.batches)
        self._values: list[Any] = []
        self._seconds = 0.0

    def begin(self, after: int) -> None:
        """The first step comes next, or that behind so many, whose batches are passed over."""
        self.steps = self.resumed_after = after
        self._batches = islice(self._batches, after, None)
        self.is_whole = True

    def make(self, run: Run, batch: tuple[Any, ...]) -> Any:
        """Make a step; it counts as soon as it is made."""
        self.is_whole = False
        value = run(*batch)
        self.steps += 1
        self.is_whole = True
        return value

    def change(self, step: Any) -> None:
        """Make another step from the next one on.

        Raises:
            EnforcerError: it is none.
        """
        with self._changing:
            self._wanted = next(self._numbers), _checked(self.job, step), None

    def refit(self, fitted: Transform) -> None:
        """Make the same step rewritten from the next one on, unless another is wanted."""
        with self._changing:
            if not self.will_change:
                self._wanted = next(self._numbers), self._made[1], fitted

    @property
    def is_refitted(self) -> bool:
        """Is the step that is made rewritten?"""
        return self._made[2] is not None

    @property
    def will_change(self) -> bool:
        """Is the one that comes next another, or rewritten?"""
        return self._wanted[0] != self._made[0]

    @property
    def changes(self) -> int:
        """The number of the step that is made; what waits to make one, makes that, though another is wanted."""
        return self._made[0]

    def cancel(self) -> None:
        """End the job before its next step."""
        self._cancelled = True

    def instance(self) -> Instance:
        """The step, in an instance of its own."""
        step = self._made[1]
        if isinstance(step, SessionStep):
            return SessionInstance(step.session, step.fetches, step.feeds)
        return FunctionInstance(step)

    def rewritten(self, last: Transform) -> Transform:
        """As `Stepping` says."""
        fitted = self._made[2]
        return last if fitted is None else Pipeline((fitted, last))

    def goes_on(self) -> bool:
        """Is there another step to come, as far as one knows?"""
        if self._cancelled and not self.ended:
            self.ended, self.error = True, CancelledError(f"cancelled after {self.steps} steps")
        return not self.ended

    def advance(self, run: Run) -> bool:
        """Make a step with the next batch; False if there is none left, or it failed, which ends the job."""
        try:
            taken = self.goes_on() and self._advance(run)
        except Exception as err:  # the job's own code: any
            self.fail(err)
            return False
        except BaseException as err:  # as SystemExit, which would end this thread, and say nothing
            self.fail(_exited(self.job, err))
            return False
        self.ended = not taken
        return taken

    def fail(self, error: Exception) -> None:
        """End the job, and say so."""
        self.ended, self.error = True, error
        _log.warning("tfwave: the job '%s' failed after %d steps: %s", self.job.name, self.steps, error)

    def close(self) -> None:
        """Let go of the step and of the batches: what a model has in the pool goes, though a handle is kept."""
        self._made = self._wanted = self.changes, None, None
        self._batches = iter(())
        self.state = None
        self.job = replace(self.job, step=None, batches=(), checkpoint=None)

    def result(
        self, waited_seconds: float, latency_p95_seconds: float | None = None, held: Held | None = None
    ) -> JobResult:
        """So far."""
        return JobResult(
            self.steps,
            tuple(self._values),
            self._seconds,
            waited_seconds,
            self.error,
            latency_p95_seconds,
            self.resumed_after,
            None if held is None else held.slowdown,
            0 if held is None else held.times,
        )

    def _advance(self, run: Run) -> bool:
        for batch in self._batches:
            self._made = self._wanted
            begin = time.perf_counter()
            self._values.append(run(*arguments(batch)))
            self._seconds += time.perf_counter() - begin
            return True
        return False


def let_go(error: BaseException | None) -> None:
    """Empty the frames of a failed step that have ended: what they hold, as its batch, is in the pool."""
    for one in origins(error):
        traceback.clear_frames(one.__traceback__)


def in_words_only(error: BaseException | None) -> None:
    """Keep where an error came from as a note: its frames know the job, and that a model, which is in the pool."""
    for one in origins(error):
        if one.__traceback__ is not None:
            one.add_note("".join(traceback.format_tb(one.__traceback__)))
            one.__traceback__ = None


def _exited(job: Job, error: BaseException) -> EnforcerError:
    raised = EnforcerError(
        f"the job '{job.name}' ends with {error!r}, which ends no process from a thread: let its step or batches "
        "raise another error, or its batches end"
    )
    raised.__cause__ = error
    return raised


def _state(job: Job) -> State | None:
    """Told apart by what only they have."""
    given, step = job.checkpoint, job.step
    if given is None:
        return None
    if isinstance(step, SessionStep) and hasattr(given, "saver_def"):
        return SessionState(step.session, given)
    if not isinstance(step, SessionStep) and hasattr(given, "read"):
        return ObjectState(given)
    wanted = "tf.compat.v1.train.Saver" if isinstance(step, SessionStep) else "tf.train.Checkpoint"
    raise EnforcerError(f"the checkpoint of the job '{job.name}' is {given!r}: give a {wanted}")


def _checked(job: Job, step: Any) -> Any:
    if not (isinstance(step, SessionStep) or is_function(step)):
        raise EnforcerError(
            f"the step of the job '{job.name}' is {step!r}: give a tf.function, or a tfwave.colocate.SessionStep"
        )
    feeds: Any = step.feeds if isinstance(step, SessionStep) else ()
    if not isinstance(feeds, Sequence):
        raise EnforcerError(
            f"the step of the job '{job.name}' has the feeds {feeds!r}: give a list of tensors, one for each "
            "part of a batch"
        )
    if job.background and not (isinstance(step, SessionStep) and is_lowered(step.session)):
        raise EnforcerError(
            f"the job '{job.name}' is a background, and the threads of its step are others' too: give a "
            "SessionStep of a tfwave.colocate.background_session, or run it as a program, see "
            "tfwave.colocate.Background"
        )
    return step
