"""A training that takes only what the foreground, in this process, leaves idle."""

import logging
import os
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

from tfwave.colocate.pacing import IDLE_SECONDS, Pacing, Steps
from tfwave.errors import EnforcerError
from tfwave.runtime.background import BackgroundProcess, python_command
from tfwave.sizes import parse_size

_log = logging.getLogger("tfwave")


@dataclass(frozen=True)
class BackgroundReport:
    """What became of a background so far.

    Attributes:
        seconds: since it was started, until it was seen to have ended.
        paused_seconds: of those, how long it was paused.
        held: how often it was paused for longer, as steps took more than `slowdown_at_most` times as long.
        slowdown: how many times as long as without it the foreground's steps took while it ran: the median of all
            times that this was measured; None where there were too few steps.
        exit_code: 128 + number after a signal; None as long as it has not ended.
    """

    seconds: float
    paused_seconds: float
    held: int
    slowdown: float | None
    exit_code: int | None


class Background:
    """Runs a training program, in a process of its own, on what the foreground leaves idle (DeepPool section 5).

    It starts with the `with` block, whose end ends it (SIGTERM, five seconds later SIGKILL); so does the end of
    this process, however that comes, and that of the thread that entered the block. Nothing that becomes of it, an
    error, a kill or a full memory, is raised here or waited for; the report has its exit code.

    The kernel gives it the cores' time that nobody else wants at the moment. What they still share, caches and the
    memory's bandwidth, may slow the foreground. So its steps are timed: for 8 of about 160 the background is
    paused, to tell what a step takes alone, and where steps surely take more than `slowdown_at_most` times as long,
    it is paused for longer. A foreground that makes no step for two seconds, as one that waits for requests, is
    idle: the background goes on until it makes the next.

    Args:
        program: a Python file and its arguments.
        slowdown_at_most: as 1.05; None: it is measured only.
        memory_limit: of the CPU's pool of TensorFlow in the program: bytes, or as "512MiB". By default, as the
            program says itself. A limit of this process's pool is not inherited.
        restarts: where it fails, or hangs (`background_step`), it is started again, later each time, so that starts
            take no more than a twentieth of the time; and where its memory ran out, it is told half its batch
            (`background_batch`). The report has the exit code of its last run, once there is none to come.

    Raises:
        EnforcerError: there is no such file, or under 4 MiB of memory; or it is entered a second time.
        PlanError: `slowdown_at_most` is not above 1, or what should be a size is none.
    """

    def __init__(
        self,
        program: Sequence[str | os.PathLike[str]],
        *,
        slowdown_at_most: float | None = None,
        memory_limit: str | int | None = None,
        restarts: bool = False,
    ) -> None:
        """Nothing runs."""
        self._command = python_command(program)
        self._pacing = Pacing(slowdown_at_most)
        self._memory_bytes = None if memory_limit is None else parse_size(memory_limit)
        self._restarts = restarts
        self._process: BackgroundProcess | None = None
        self._begin = 0.0
        self._end: float | None = None
        self._turn = threading.Lock()
        self._steps = Steps()
        self._left = threading.Event()

    def __enter__(self) -> Self:
        if self._process is not None:
            raise EnforcerError("the background has run in a with block already: make another Background")
        self._process = BackgroundProcess(self._command, self._memory_bytes, restarts=self._restarts)
        self._begin = self._steps.ended = time.monotonic()
        self._pace()
        threading.Thread(target=self._go_on_beside_idle, name="tfwave-background", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._left.set()
        self._has_ended()
        self._started.end()
        self._end = self._end or time.monotonic()

    @contextmanager
    def step(self) -> Generator[None]:
        """Around each step of the foreground, in one thread; a generator of batches may yield in it.

        The background begins to run behind the first 16, and pauses and goes on between two of them only: where it
        went on beside an idle foreground, too, it pauses before the next step. A block that raises is no step.

        Raises:
            EnforcerError: outside of the `with` block.
        """
        with self._turn:
            if not self._has_ended():
                self._pace()
            self._steps.under_way += 1
        begin = time.perf_counter()
        try:
            yield
            if not self._has_ended():
                self._pacing.note(time.perf_counter() - begin)
                self._pace()
        finally:
            self._steps.ended = time.monotonic()
            self._steps.under_way -= 1  # in this order: the other thread sees no old end

    def wait(self, timeout: float | None = None) -> int:
        """Let the background go on to its end, once the foreground makes no more steps; its exit code.

        Raises:
            EnforcerError: outside of the `with` block.
            TimeoutError: it has not ended after so many seconds.
        """
        code = self._started.wait(timeout)
        self._has_ended()
        return code

    def report(self) -> BackgroundReport:
        """Of what was so far.

        Raises:
            EnforcerError: before the `with` block.
        """
        process = self._started
        code = process.exit_code
        end = time.monotonic() if self._end is None else self._end
        return BackgroundReport(
            end - self._begin, process.paused_seconds, self._pacing.held, self._pacing.slowdown, code
        )

    @property
    def pid(self) -> int:
        """Of the program's process; of that which starts it, where it is started again.

        Raises:
            EnforcerError: before the `with` block.
        """
        return self._started.pid

    @property
    def _started(self) -> BackgroundProcess:
        if self._process is None:
            raise EnforcerError("the background does not run: enter its with block first")
        return self._process

    def _pace(self) -> None:
        if self._pacing.runs:
            self._started.resume()
        else:
            self._started.pause()

    def _go_on_beside_idle(self) -> None:
        while not self._left.wait(IDLE_SECONDS / 4):
            with self._turn:
                if not self._steps.is_active(time.monotonic()):
                    self._started.resume()

    def _has_ended(self) -> bool:
        """Notes when it is first seen."""
        code = self._started.exit_code
        if code is not None and self._end is None:
            self._end = time.monotonic()
            self._started.resume()
            if code:
                _log.warning("tfwave: the background ended with exit code %d; the foreground goes on", code)
        return code is not None
