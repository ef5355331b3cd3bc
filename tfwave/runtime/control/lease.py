"""How long something holds that a client of this process asked for and must not forget to renew."""

import threading
import time
from collections.abc import Callable

from tfwave.errors import EnforcerError


class Lease:
    """Calls `expire`, from a thread of its own, once a lease has run out that nobody renewed. Thread-safe."""

    def __init__(self, expire: Callable[[], None]) -> None:
        """No lease runs yet."""
        self._expire = expire
        self._changed = threading.Condition()
        self._seconds = 0.0
        self._end = 0.0
        self._watched = False
        self._ran_out = False

    def grant(self, seconds: float) -> None:
        """Begin a lease of so many seconds instead of the one that runs; 0: end that without a call.

        Raises:
            EnforcerError: the system gives no thread.
        """
        with self._changed:
            self._seconds = seconds
            self._end = time.monotonic() + seconds
            self._ran_out = False
            if seconds and not self._watched:
                self._begin_to_watch()
                self._watched = True
            self._changed.notify_all()

    def renew(self) -> None:
        """Let the lease that runs begin anew."""
        with self._changed:
            self._end = time.monotonic() + self._seconds

    @property
    def ran_out(self) -> bool:
        """Whether the last one that was granted ran out."""
        with self._changed:
            return self._ran_out

    def _begin_to_watch(self) -> None:
        try:
            threading.Thread(target=self._watch, name="tfwave-lease", daemon=True).start()
        except RuntimeError as err:  # as Python says that there is none
            raise EnforcerError(
                "the system gives this process no more threads: raise its limit (ulimit -u, or its container's)"
            ) from err

    def _watch(self) -> None:
        while self._runs_out():
            self._expire()

    def _runs_out(self) -> bool:
        """Wait for the end of the lease; False: it was ended."""
        with self._changed:
            while self._seconds and (left := self._end - time.monotonic()) > 0:
                self._changed.wait(left)
            self._ran_out = self._seconds > 0
            self._seconds = 0.0
            self._watched = self._ran_out
            return self._ran_out
