"""Steps under way on the workers."""

import threading
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

PATIENCE_SECONDS = 60
_TICK_SECONDS = 0.05


class Flight:
    """Hands steps to free workers, at most one for each, and takes their results as they end.

    Leaving the block waits for the steps under way; if it is left by an exception, for a minute at most, and their
    errors are dropped.
    """

    def __init__(self, coordinator: Any) -> None:
        self._coordinator = coordinator
        self._places = _workers()
        self._under_way: dict[Future[Any], tuple[int, Any]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._coordinator.join()
            return
        tensorflow: Any = __import__("tensorflow")
        with suppress(tensorflow.errors.OpError):
            self._leave_behind()

    @property
    def full(self) -> bool:
        return len(self._under_way) >= self._places

    def launch(self, count: int, function: Any, argument: Any) -> None:
        """Hand out a function of so many steps."""
        remote = self._coordinator.schedule(function, args=(argument,))
        landed: Future[Any] = Future()
        # Of a pool's threads Python would wait for the end, and so for a worker that is gone.
        threading.Thread(target=_wait_for, args=(remote, landed), name="tfwave-step", daemon=True).start()
        self._under_way[landed] = (count, remote)

    def land(self) -> tuple[int, Sequence[Any]]:
        """Wait for the next result: the number of steps, and what their function returned.

        Raises:
            tf.errors.OpError: a step failed.
        """
        done = self._next()
        count, remote = self._under_way.pop(done)
        return count, self._settled(remote) if done.exception() else done.result()

    def _next(self) -> Future[Any]:
        while True:
            done, _ = wait(self._under_way, PATIENCE_SECONDS, FIRST_COMPLETED)
            if done:
                return next(future for future in self._under_way if future in done)
            warnings.warn(
                f"no step has ended for {PATIENCE_SECONDS} s: are the workers running? Waiting for them",
                stacklevel=2,
            )

    def _settled(self, remote: Any) -> Sequence[Any]:
        """Either the step failed, or its worker was lost before the result was read and it runs again: the
        coordinator knows, and raises or waits.
        """
        self._coordinator.join()
        return remote.get()

    def _leave_behind(self) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while not self._coordinator.done():
            if time.monotonic() > end:
                warnings.warn(
                    f"steps under way have not ended within {PATIENCE_SECONDS} s, and are left behind: are the "
                    "workers running?",
                    stacklevel=2,
                )
                return
            time.sleep(_TICK_SECONDS)


def _wait_for(remote: Any, landed: "Future[Any]") -> None:
    try:
        landed.set_result(remote.get())
    except BaseException as err:  # of a step: any; who lands it raises it
        landed.set_exception(err)


def _workers() -> int:
    tensorflow: Any = __import__("tensorflow")
    names = [device.name for device in tensorflow.config.list_logical_devices()]
    return len({name.partition("/device:")[0] for name in names if name.startswith("/job:worker/")})
