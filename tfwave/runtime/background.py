"""A whole program, beside this process, that takes only the cores' time that others leave."""

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from tfwave.errors import EnforcerError
from tfwave.runtime.allocator import LIMIT, ONEDNN, POOL, AllocatorSettings, cpu_variables
from tfwave.runtime.beside import VARIABLE

START_SECONDS = 60.0
"""Until it is bound to end with this process: one that is paused before would never."""
_GRACE_SECONDS = 5.0


class BackgroundProcess:
    """Runs as `tfwave.runtime.lowest` says, from when it is made; at the latest it ends with the making thread."""

    def __init__(
        self, command: Sequence[str], memory_bytes: int | None = None, *, restarts: bool = False
    ) -> None:
        """Start it.

        Args:
            command: the program and its arguments.
            memory_bytes: of TensorFlow's CPU pool in it; None: as the program itself says.
            restarts: where it fails or hangs, it is started again, see `tfwave.runtime.restarted`.

        Raises:
            EnforcerError: under 4 MiB of memory, or it does not start.
        """
        self._pausing = threading.Lock()
        self._paused_at: float | None = None
        self._paused_before = 0.0
        environment = _environment(os.environ, memory_bytes)
        kept = [sys.executable, "-m", "tfwave.runtime.restarted"] if restarts else []
        bound, binding = os.pipe()
        with open(bound, "rb") as told:
            with open(binding, "wb"):
                self._process = subprocess.Popen(
                    [
                        sys.executable,
                        "-m",
                        "tfwave.runtime.lowest",
                        str(os.getpid()),
                        str(binding),
                        *kept,
                        *command,
                    ],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                    pass_fds=(binding,),
                )
            try:
                _wait_for(told)
            except BaseException:  # Ctrl-C, too: nobody would know of it
                self._kill()
                raise

    @property
    def pid(self) -> int:
        """Of the program, and of the group of processes that it starts."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """128 + number after a signal; None as long as it has not ended."""
        code = self._process.poll()
        return 128 - code if code is not None and code < 0 else code

    @property
    def paused_seconds(self) -> float:
        """How long it was paused so far."""
        with self._pausing:
            return self._paused()

    def pause(self) -> None:
        """Stop it and what it started, wherever they are."""
        with self._pausing:
            if self._paused_at is None:
                self._signal(signal.SIGSTOP)
                self._paused_at = time.monotonic()

    def resume(self) -> None:
        """Let it go on."""
        with self._pausing:
            if self._paused_at is not None:
                self._paused_before, self._paused_at = self._paused(), None
                self._signal(signal.SIGCONT)

    def wait(self, timeout: float | None = None) -> int:
        """Let it go on to its end; its exit code.

        Raises:
            TimeoutError: it has not ended after so many seconds.
        """
        self.resume()
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired as error:
            raise TimeoutError(f"the background has not ended after {timeout} s") from error
        code = self.exit_code
        assert code is not None
        return code

    def end(self) -> None:
        """Ask it to end (SIGTERM), and after five seconds end it."""
        self._signal(signal.SIGTERM)
        self.resume()
        try:
            self._process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self._kill()

    def _paused(self) -> float:
        now = 0.0 if self._paused_at is None else time.monotonic() - self._paused_at
        return self._paused_before + now

    def _kill(self) -> None:
        self._signal(signal.SIGKILL)
        self._process.wait()

    def _signal(self, number: int) -> None:
        """Its number is its group's as long as nobody has asked for its exit code."""
        if self._process.poll() is None:
            os.killpg(self.pid, number)


def _wait_for(told: IO[bytes]) -> None:
    if not select.select([told], [], [], START_SECONDS)[0]:
        raise EnforcerError(
            f"the background did not start within {START_SECONDS:g} s: is the machine overloaded?"
        )


def python_command(program: Sequence[str | os.PathLike[str]]) -> list[str]:
    """How this Python runs a program.

    Raises:
        EnforcerError: no such file.
    """
    words = [os.fspath(word) for word in program]
    if not words or not Path(words[0]).is_file():
        raise EnforcerError(f"there is no program '{' '.join(words[:1])}': give a Python file")
    return [sys.executable, *words]


def _environment(own: Mapping[str, str], memory_bytes: int | None) -> dict[str, str]:
    """This process's, without the limit of its own pool, and what tells of another background."""
    inherited = {POOL, LIMIT, ONEDNN} if POOL in own else set[str]()
    kept = {name: value for name, value in own.items() if name not in {*inherited, VARIABLE}}
    return kept if memory_bytes is None else kept | cpu_variables(AllocatorSettings(memory_bytes))
