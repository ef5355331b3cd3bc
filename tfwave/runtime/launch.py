"""A whole job on this machine: parameter servers, workers, and a chief's program in front of them."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from tfwave.errors import EnforcerError, EnvironmentUnsupported
from tfwave.runtime.native import ensure_built
from tfwave.runtime.ports import reserved_ports
from tfwave.runtime.termination import GRACE_SECONDS, end_process

START_SECONDS = 180.0
"""All servers together have so long to start, once the native library is there."""
INTERRUPT_SECONDS = 30.0
"""Ctrl-C tells the programs of a job, too, and not its servers: so long they may take to save what they have."""
_DIE_WITH_PARENT = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 15)  # PR_SET_PDEATHSIG, SIGTERM; it outlives exec
if os.getppid() != int(sys.argv[1]):
    sys.exit("tfwave: the job has ended before this program of it began")
os.execvp(sys.argv[2], sys.argv[2:])
"""


@dataclass(frozen=True)
class LocalJob:
    """Where the tasks of a job on this machine are: TensorFlow's addresses and those of tfwave's services."""

    cluster: dict[str, list[str]]
    control: dict[str, list[str]]
    reduce: str | None = None

    def tf_config(self, job: str, index: int) -> str:
        """TF_CONFIG for a task."""
        task = {"type": job, "index": index}
        own: dict[str, Any] = {"control": self.control}
        if self.reduce is not None:
            own["reduce"] = self.reduce
        return json.dumps({"cluster": self.cluster, "task": task, "tfwave": own})

    def environment(self, job: str, index: int) -> dict[str, str]:
        """This process's environment, with the task's TF_CONFIG."""
        return os.environ | {"TF_CONFIG": self.tf_config(job, index)}


@contextmanager
def local_servers(ps: int, workers: int) -> Generator[LocalJob]:
    """Run so many `python -m tfwave.server` on free ports of loopback; they end with the block.

    What a step has them say on standard output, as `tf.print` may, this process says on its own.

    The first ones ever wait until the native library is built, which may take longer than servers have to start.

    Raises:
        EnforcerError: a count is under 1, or the library cannot be built; or a server does not start, and what it
            said.
    """
    if ps < 1 or workers < 1:
        raise EnforcerError(
            f"a job of {ps} servers and {workers} workers cannot run: give at least one of each"
        )
    with suppress(EnvironmentUnsupported):  # they say so, or order by proxies
        ensure_built()
    with ExitStack() as started:
        ports = started.enter_context(reserved_ports(1 + 2 * (ps + workers)))
        addresses = [f"127.0.0.1:{port}" for port in ports]
        tasks, control = addresses[1 : 1 + ps + workers], addresses[1 + ps + workers :]
        job = LocalJob(
            {"chief": addresses[:1], "ps": tasks[:ps], "worker": tasks[ps:]},
            {"ps": control[:ps], "worker": control[ps:]},
        )
        servers = [
            started.enter_context(_server(job, name, index))
            for name in ("ps", "worker")
            for index in range(len(job.cluster[name]))
        ]
        end = time.monotonic() + START_SECONDS
        for server in servers:
            server.wait_until_ready(end)
        yield job


def run_chief(job: LocalJob, command: Sequence[str]) -> int:
    """Run a chief's program to its end; its exit code, 128 + number after a signal.

    At Ctrl-C it has `INTERRUPT_SECONDS` to end by itself.
    """
    with _process(command, job.environment("chief", 0)) as process, _let_end([process]):
        code = process.wait()
    return code if code >= 0 else 128 - code


def run_workers(workers: int, command: Sequence[str], coordinator: str) -> int:
    """Run a program once for each worker of a job whose reduces have this coordinator, to the end of all.

    At Ctrl-C they have `INTERRUPT_SECONDS` to end by themselves.

    Returns:
        0 if all end well, else the exit code of the first worker that did not, 128 + number after a signal.
    """
    with ExitStack() as started:
        ports = started.enter_context(reserved_ports(workers))
        job = LocalJob({"worker": [f"127.0.0.1:{port}" for port in ports]}, {}, coordinator)
        processes = [
            started.enter_context(_process(command, job.environment("worker", index)))
            for index in range(workers)
        ]
        with _let_end(processes):
            codes = [process.wait() for process in processes]
    first = next((code for code in codes if code), 0)
    return first if first >= 0 else 128 - first


class _Server:
    """A server that was started; a thread reads what it says, so that it never waits to be heard."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self._spoke = threading.Event()
        self._is_ready = False
        self._thread = threading.Thread(target=self._pass_on, name="tfwave-said", daemon=True)
        self._thread.start()

    def wait_until_ready(self, end: float) -> None:
        if not self._spoke.wait(max(0.0, end - time.monotonic())):
            raise EnforcerError(
                f"the servers did not start within {START_SECONDS:g} s: is the machine overloaded?"
            )
        if not self._is_ready:
            code = self._process.wait()
            raise EnforcerError(f"a server ended with exit code {code}: see what it said above")

    def end(self) -> None:
        end_process(self._process)
        self._thread.join(GRACE_SECONDS)

    def _pass_on(self) -> None:
        """All but the line by which it is ready; once nobody takes it, the server's output is closed."""
        assert self._process.stdout
        with self._process.stdout as said, suppress(OSError, ValueError):
            self._is_ready = bool(said.readline())
            self._spoke.set()
            for line in said:
                sys.stdout.write(line)
                sys.stdout.flush()


@contextmanager
def _server(job: LocalJob, name: str, index: int) -> Generator[_Server]:
    command = [sys.executable, "-m", "tfwave.server"]
    environment = job.environment(name, index)
    server = _Server(_started(command, environment, stdout=subprocess.PIPE, start_new_session=True))
    try:
        yield server
    finally:
        server.end()


@contextmanager
def _process(command: Sequence[str], environment: dict[str, str]) -> Generator["subprocess.Popen[str]"]:
    process = _started(command, environment)
    try:
        yield process
    finally:
        end_process(process)


@contextmanager
def _let_end(processes: Sequence["subprocess.Popen[str]"]) -> Generator[None]:
    try:
        yield
    except KeyboardInterrupt:
        end = time.monotonic() + INTERRUPT_SECONDS
        for process in processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, end - time.monotonic()))
        raise


def _started(command: Sequence[str], environment: dict[str, str], **options: Any) -> "subprocess.Popen[str]":
    bound = [sys.executable, "-c", _DIE_WITH_PARENT, str(os.getpid()), *command]
    return subprocess.Popen(bound, env=environment, text=True, errors="replace", **options)
