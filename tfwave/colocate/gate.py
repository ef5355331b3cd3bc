"""Who may run beside others, and who runs alone."""

import logging
import threading
from collections.abc import Generator
from contextlib import contextmanager

from tfwave.errors import EnforcerError

_log = logging.getLogger("tfwave")


class Gate:
    """Lets steps run side by side, and now and then something alone; in turn, so that neither keeps the other out.

    1. Who wants to be alone waits until those inside have ended; nobody new goes in meanwhile.
    2. Those whom that kept waiting go in before the next one is alone.
    """

    def __init__(self, seconds: float) -> None:
        """Nobody waits for longer than so many seconds."""
        self._seconds = seconds
        self._changed = threading.Condition()
        self._inside = 0
        self._wanted = 0
        self._outside = 0
        self._due = 0
        self._taken = False

    @contextmanager
    def beside(self) -> Generator[None]:
        """Goes in where nothing is alone; after too long, anyway, and says so: a step that hangs stops no other."""
        with self._changed:
            self._outside += 1
            try:
                free = self._changed.wait_for(self._may_enter, self._seconds)
            finally:
                self._outside -= 1
                self._due = max(0, self._due - 1)
                self._changed.notify_all()
            self._inside += 1
        if not free:
            _log.warning(
                "tfwave: a step that runs alone takes over %.0f s: others go on beside it", self._seconds
            )
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Generator[None]:
        """Waits until nothing runs.

        Raises:
            EnforcerError: something does not end in time.
        """
        with self._changed:
            self._wanted += 1
            try:
                free = self._changed.wait_for(self._is_empty, self._seconds)
            finally:
                self._wanted -= 1
                self._changed.notify_all()
            self._taken = self._taken or free
        if not free:
            raise EnforcerError(
                f"steps that run have not ended after {self._seconds:.0f} s: one of them hangs"
            )
        try:
            yield
        finally:
            with self._changed:
                self._taken = False
                self._due = self._outside
                self._changed.notify_all()

    def _may_enter(self) -> bool:
        return not self._taken and (self._due > 0 or not self._wanted)

    def _is_empty(self) -> bool:
        return not (self._taken or self._inside or self._due)
