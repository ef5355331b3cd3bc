"""Processes that have TensorFlow imported already: one imports it, once, and all others are forked from that.

So is what most of them need of tfwave. A fork is as much a process of its own as one that was started anew: nothing
of TensorFlow or gRPC runs before it. What must do something before TensorFlow is imported, or shows how a command
starts, is started anew. What TensorFlow reads from the environment while it is imported has a server for each of
its values.
"""

import atexit
import contextlib
import json
import os
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO

ROOT = Path(__file__).parent.parent
NUMBER = struct.Struct("i")
MOST_BYTES = 1 << 17
ENVIRONMENT = {
    "CUDA_VISIBLE_DEVICES": "",
    "KERAS_BACKEND": "tensorflow",
    "PYTHONPATH": str(ROOT),
    "TF_CPP_MIN_LOG_LEVEL": "3",
}
IMPORTED = ("tensorflow", "tfwave.distribute", "tfwave.keras", "tfwave.runtime.server")
READ_AT_IMPORT = "TF_ENABLE_ONEDNN_OPTS"


class Forked:
    """A module that runs as `python -m` does it; what it has of `subprocess.Popen` does what it does there."""

    def __init__(
        self, module: str, arguments: Sequence[str], environment: Mapping[str, str], *, stderr: bool
    ) -> None:
        """`stderr`: whether standard error is read; else it goes nowhere."""
        (its_in, mine_in), (mine_out, its_out), (self._status, its_status) = os.pipe(), os.pipe(), os.pipe()
        mine_err, its_err = os.pipe() if stderr else (None, os.open(os.devnull, os.O_WRONLY))
        self.stdin: TextIO = os.fdopen(mine_in, "w")
        self.stdout: TextIO = os.fdopen(mine_out)
        self.stderr: TextIO | None = None if mine_err is None else os.fdopen(mine_err)
        self.returncode: int | None = None
        its = [its_in, its_out, its_err, its_status]
        request = {"module": module, "arguments": arguments, "environment": dict(environment)}
        server = _fork_server(environment.get(READ_AT_IMPORT))
        socket.send_fds(server, [json.dumps(request).encode()], its)
        for descriptor in its:
            os.close(descriptor)
        self.pid = self._told()
        self._reading: list[Future[str]] = []

    def _told(self) -> int:
        said = os.read(self._status, NUMBER.size)
        assert said, "the fork server has ended"
        return NUMBER.unpack(said)[0]

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            self.returncode = self._told()
            os.close(self._status)
        return self.returncode

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """May be called again after it ran out of time."""
        if not self._reading:
            self.stdin.close()
            pool = ThreadPoolExecutor(2)
            self._reading = [pool.submit(stream.read) for stream in (self.stdout, self.stderr) if stream]
            pool.shutdown(wait=False)
        self.wait(timeout)
        out, *err = (read.result() for read in self._reading)
        return out, "".join(err)


@cache
def _fork_server(read_at_import: str | None) -> socket.socket:
    """What asks this process's fork server of that environment, which ends with it."""
    mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its:
        command = [sys.executable, "-m", "tests.fork_server", str(its.fileno())]
        variables = {**os.environ, **ENVIRONMENT}
        variables.pop(READ_AT_IMPORT, None)
        variables |= {} if read_at_import is None else {READ_AT_IMPORT: read_at_import}
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "pass_fds": [its.fileno()]}
        server = subprocess.Popen(command, env=variables, **pipes)

    def stop() -> None:
        mine.close()
        server.wait(60)

    atexit.register(stop)
    return mine


def _serve(calls: socket.socket) -> dict[str, Any] | None:
    """Fork at each call. Returns in each child, with what it is asked for, and at the end of all calls."""
    children: dict[int, tuple[int, int]] = {}  # by what tells their end: process, and where its end is told
    while True:
        ready, _, _ = select.select([calls, *children], [], [])
        for ended in children.keys() & ready:
            pid, status = children.pop(ended)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            with contextlib.suppress(BrokenPipeError):
                os.write(status, NUMBER.pack(code))
            os.close(status)
            os.close(ended)
        if calls not in ready:
            continue
        message, descriptors, *_ = socket.recv_fds(calls, MOST_BYTES, 4)
        if not message:
            return None
        *standard, status = descriptors
        if not (pid := os.fork()):
            for number, descriptor in enumerate(standard):
                os.dup2(descriptor, number)
            others = (descriptor for pair in children.items() for descriptor in (pair[0], pair[1][1]))
            for descriptor in (*descriptors, *others):
                os.close(descriptor)
            return json.loads(message)
        for descriptor in standard:
            os.close(descriptor)
        os.write(status, NUMBER.pack(pid))
        children[os.pidfd_open(pid)] = pid, status


def main() -> None:
    import numpy as np

    for module in IMPORTED:
        import_module(module)
    with socket.socket(fileno=int(sys.argv[1])) as calls:
        asked = _serve(calls)
    if asked is None:
        return
    np.random.seed()
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.argv[1:] = asked["arguments"]
    runpy.run_module(asked["module"], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
