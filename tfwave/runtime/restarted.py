"""`python -m tfwave.runtime.restarted COMMAND...`: a program that is started again when it fails.

It is a small process of its own, as low as the program: so each start is low from its first instruction, and takes
nothing of the foreground's process.

1. A program that ends well has ended.
2. One that fails is started again, as `Backoff` says.
3. One that hangs, as `Patience` says, is ended (SIGTERM, five seconds later SIGKILL) and has failed.
4. One whose memory ran out, and that has read its batch (`background_batch`), is told half of it. With a batch of 1
   it is given up.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tfwave.runtime.backoff import Backoff, Patience
from tfwave.runtime.beside import VARIABLE, Field, Told
from tfwave.runtime.termination import bind_to, end_process

TICK_SECONDS = 1.0
_WATCHED = (signal.SIGCHLD, signal.SIGTERM)


class Restarted:
    """Runs a program until it ends well, is given up, or this process is told to end."""

    def __init__(
        self,
        command: Sequence[str],
        backoff: Backoff,
        patience: Patience,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing runs."""
        self._command = list(command)
        self._backoff = backoff
        self._patience = patience
        self._clock = clock
        self._told = Told()
        self._is_to_end = False
        self._pid = os.getpid()
        self._signals = signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)

    def run(self) -> int:
        """The exit code of its last run; 128 + number after a signal."""
        while True:
            began, kills = self._clock(), _kills_for_memory()
            code = self._run_once()
            if code == 0 or self._is_to_end:  # case 1
                return code
            is_full = self._told.get(Field.FULL) == 1
            is_full |= code == 128 + signal.SIGKILL and _kills_for_memory() > kills
            if is_full and not self._shrink():  # case 4
                return code
            seconds = self._backoff.failed(self._clock() - began)  # case 2
            _say(f"it failed (exit code {code}), and is started again in {seconds:.0f} s")
            if self._is_told_to_end(seconds):
                return code

    def _run_once(self) -> int:
        """Cases 1 and 3."""
        for field in (Field.BATCH, Field.STEPS, Field.FULL):
            self._told.set(field, 0)
        self._patience.began()
        process = subprocess.Popen(
            self._command,
            env=os.environ | {VARIABLE: self._told.path},
            preexec_fn=self._prepare,  # noqa: PLW1509 (there is one thread)
        )
        asked, waited = self._clock(), 0.0
        while (code := process.poll()) is None:
            if self._received(TICK_SECONDS) == signal.SIGTERM:
                self._is_to_end = True
                process.terminate()
            before, waited_before = asked, waited
            asked, waited = self._clock(), waited_seconds(process.pid)
            could = min(asked - before, 2 * TICK_SECONDS) - max(0.0, waited - waited_before)
            if self._patience.hangs(self._told.get(Field.STEPS), max(0.0, could)):
                _say("it makes no step any more, and is ended")
                end_process(process)
        return 128 - code if code < 0 else code

    def _shrink(self) -> bool:
        batch = self._told.get(Field.BATCH)
        if batch > 1:
            self._told.set(Field.MOST, batch // 2)
            _say(f"a batch of {batch} had no room in its memory: it is told {batch // 2}")
        elif batch == 1:
            _say(
                "even a batch of 1 has no room in its memory: give it more, or a smaller model; it is given up"
            )
            return False
        else:
            _say(
                "its memory ran out: give it a smaller batch, or let it ask for one "
                "(tfwave.colocate.background_batch)"
            )
        return True

    def _is_told_to_end(self, seconds: float) -> bool:
        """Within so many seconds?"""
        end = self._clock() + seconds
        while (left := end - self._clock()) > 0:
            if self._received(left) == signal.SIGTERM:
                return True
        return False

    def _received(self, seconds: float) -> int | None:
        got = signal.sigtimedwait(_WATCHED, seconds)
        return None if got is None else got.si_signo

    def _prepare(self) -> None:
        """In the program's process, which ends with this one, however that ends."""
        signal.pthread_sigmask(signal.SIG_SETMASK, self._signals)
        if not bind_to(self._pid):
            os._exit(1)


def waited_seconds(pid: int) -> float:
    """How long the threads of a process, as they are now, waited for a core."""
    nanoseconds = 0
    for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            nanoseconds += int(thread.read_text().split()[1])
        except (OSError, IndexError):
            continue
    return nanoseconds / 1e9


def _kills_for_memory() -> int:
    """By the kernel, of all processes so far."""
    lines = Path("/proc/vmstat").read_text().splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


def _say(text: str) -> None:
    sys.stderr.write(f"tfwave: background: {text}\n")
    sys.stderr.flush()


def main() -> None:
    """Run the program until it needs no start any more."""
    sys.exit(Restarted(sys.argv[1:], Backoff(), Patience()).run())


if __name__ == "__main__":
    main()
