"""The processes of a demo: Python modules that run on the hosts of its network and are told what to do."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import tfwave
from tfwave.demo.child import PARENT
from tfwave.demo.lines import JsonLines
from tfwave.demo.network import Network
from tfwave.errors import EnforcerError

GRACE_SECONDS = 3.0
LOG_LINES = 3
VISIBLE = "CUDA_VISIBLE_DEVICES"

_PROXIES = {"http_proxy", "https_proxy", "grpc_proxy", "all_proxy"}


class Task:
    """A process, started by `Tasks.start`."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path) -> None:
        assert process.stdin
        assert process.stdout
        self.name = name
        self.log = log
        """Where its standard error goes."""
        self.pid = process.pid
        self._process = process
        self._lines = JsonLines(process.stdout.fileno(), process.stdin.fileno())
        self._failure: str | None = None

    def request(self, message: Mapping[str, object], seconds: float) -> dict[str, Any]:
        """Send a request and wait for its answer; after a failure the task is asked nothing more.

        Raises:
            EnforcerError: it died, said no JSON object or did not answer within `seconds`.
        """
        end = time.monotonic() + seconds
        self.send(message, seconds)
        return self.receive(end - time.monotonic())

    def send(self, message: Mapping[str, object], seconds: float = GRACE_SECONDS) -> None:
        """The first half of `request`: several tasks can work at once."""
        self._refuse_if_failed()
        try:
            self._lines.send(message, time.monotonic() + seconds)
        except TimeoutError as err:
            raise self._failed(f"takes no request within {seconds:.3g} s") from err
        except BrokenPipeError as err:
            raise self._failed(self._how_it_ended()) from err

    def receive(self, seconds: float) -> dict[str, Any]:
        """The second half of `request`."""
        self._refuse_if_failed()
        try:
            return self._lines.receive(time.monotonic() + seconds)
        except TimeoutError as err:
            raise self._failed(f"does not answer within {seconds:.3g} s") from err
        except EOFError as err:
            raise self._failed(self._how_it_ended()) from err
        except ValueError as err:
            raise self._failed(f"says what is no JSON object ({err})") from err

    def end(self) -> None:
        """Terminate it, and what it started; kill what has not ended within `GRACE_SECONDS`."""
        end_all([self])

    def signal(self, number: signal.Signals) -> None:
        """Signal it and what it started, if it has not ended."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def has_ended(self, seconds: float) -> bool:
        """Whether it has ended, or does within `seconds`."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, seconds))
        return self._process.returncode is not None

    def close(self) -> None:
        """Close the pipes to it."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                pipe.close()

    def _how_it_ended(self) -> str:
        if not self.has_ended(GRACE_SECONDS):
            return "closed its output"
        code = self._process.returncode
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"

    def _failed(self, what: str) -> EnforcerError:
        lines = self.log.read_text(errors="replace").splitlines()[-LOG_LINES:]
        said = " | ".join(line.strip() for line in lines) or "nothing"
        self._failure = f"task '{self.name}' {what}; its last words, of {self.log}: {said}"
        return EnforcerError(self._failure)

    def _refuse_if_failed(self) -> None:
        if self._failure:
            raise EnforcerError(self._failure)


class Tasks:
    """Starts tasks on the hosts of a network, and ends them all on exit: a context manager."""

    def __init__(self, network: Network, directory: Path) -> None:
        """Tasks of an entered network; they write ``<name>.log`` into `directory`, which exists."""
        self._network = network
        self._directory = directory
        self.started: list[Task] = []

    def start(self, name: str, host: str, module: str, environment: Mapping[str, str] | None = None) -> Task:
        """Start a module, which talks through a `tfwave.demo.child.Channel`.

        It is killed when the calling *thread* ends, however that happens: call from one that outlives it.

        Args:
            name: what errors and the log file call it.
            host: the host of the network on which it runs.
            module: its dotted name.
            environment: variables it gets besides those of this process.
        """
        python = [sys.executable, "-m", "tfwave.demo.child", module]
        log = self._directory / f"{name}.log"
        with log.open("wb") as errors:
            process = subprocess.Popen(
                [*self._network.command_prefix(host), *python],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                bufsize=0,
                env=_environment() | dict(environment or {}),
                start_new_session=True,  # Ctrl-C reaches this process only, which then ends them
            )
        self.started.append(Task(name, process, log))
        return self.started[-1]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        end_all(self.started)


def end_all(tasks: list[Task]) -> None:
    """Terminate tasks, and kill those that have not ended within `GRACE_SECONDS`."""
    try:
        for task in tasks:
            task.signal(signal.SIGTERM)
        end = time.monotonic() + GRACE_SECONDS
        for task in tasks:
            task.has_ended(end - time.monotonic())
    finally:
        for task in tasks:
            task.signal(signal.SIGKILL)
        for task in tasks:
            task.has_ended(GRACE_SECONDS)
            task.close()


def _environment() -> dict[str, str]:
    """This process's, without GPUs, and without proxies: gRPC would ask them for the hosts of the network."""
    kept = {name: value for name, value in os.environ.items() if name.lower() not in _PROXIES}
    roots = [str(Path(tfwave.__file__).parent.parent), kept.get("PYTHONPATH", "")]
    added = {PARENT: str(os.getpid()), "PYTHONPATH": os.pathsep.join(filter(None, roots))}
    return kept | {VISIBLE: ""} | added
