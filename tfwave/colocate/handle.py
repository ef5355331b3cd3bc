"""What a pool says of a job that was added."""

from typing import Any, Protocol

from tfwave.bundle.bundle import Bundle
from tfwave.colocate.results import JobResult


class Handle(Protocol):
    """A job of a pool."""

    @property
    def name(self) -> str:
        """The job's."""
        ...

    @property
    def steps(self) -> int:
        """How many it has made, with those before a checkpoint."""
        ...

    @property
    def ended(self) -> bool:
        """Does it make no other?"""
        ...

    @property
    def bundle(self) -> Bundle | None:
        """What was traced of the first shape of its batches; None before that, and where a plan was given."""
        ...

    def result(self, timeout: float | None = None) -> JobResult:
        """Wait until the job has ended; what became of it.

        Raises:
            TimeoutError: it has not in so many seconds.
        """
        ...

    def cancel(self) -> None:
        """Let the job end with the step that it makes; the error of its result says so (`CancelledError`)."""
        ...

    def change(self, step: Any) -> None:
        """Let the job make another step from its next one on, with the batches that are left; it is measured anew.

        Raises:
            EnforcerError: it is no step.
        """
        ...
