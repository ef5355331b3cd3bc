"""`python -m tfwave.server` in processes of its own."""

import contextlib
import ctypes
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.cluster.speaker import ENVIRONMENT, Process, end, read_line
from tests.fork_server import Forked
from tests.ports import free_ports

MODULE = "tfwave.server"


def command(config: Any, *arguments: str, environment: Mapping[str, str] | None = None) -> Process:
    """Start it with this TF_CONFIG (none if None); its standard error is not kept apart from TensorFlow's."""
    return subprocess.Popen(
        [sys.executable, "-m", MODULE, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=_variables(config, environment),
    )


def forked(config: Any, *arguments: str, environment: Mapping[str, str] | None = None) -> Process:
    """The same where TensorFlow is imported already."""
    return Forked(MODULE, arguments, _variables(config, environment), stderr=True)


def _variables(config: Any, environment: Mapping[str, str] | None) -> dict[str, str]:
    inherited = {k: v for k, v in os.environ.items() if k not in ("TF_CONFIG", "TFWAVE_TOKEN")}
    told = {} if config is None else {"TF_CONFIG": config if isinstance(config, str) else json.dumps(config)}
    return inherited | ENVIRONMENT | told | dict(environment or {})


def peak_bytes(process: Process) -> int:
    """The most memory that it ever held."""
    with open(f"/proc/{process.pid}/status") as file:
        lines = dict(line.split(":", 1) for line in file)
    return int(lines["VmHWM"].split()[0]) << 10


def seconds_to_end(process: Process, number: int) -> float:
    start = time.monotonic()
    process.send_signal(number)
    process.wait(100)
    return time.monotonic() - start


def tell_other_thread(process: Process, number: int) -> None:
    """Send a signal to one of its threads that is not the main one, as the kernel may."""
    threads = map(int, os.listdir(f"/proc/{process.pid}/task"))
    other = next(thread for thread in threads if thread != process.pid)
    assert ctypes.CDLL(None, use_errno=True).tgkill(process.pid, other, number) == 0, ctypes.get_errno()


@dataclass
class Job:
    """A cluster of one ps and one worker, and a chief that is not there yet; all control takes `token`."""

    config: dict[str, Any]
    token: str
    ps: Process
    worker: Process
    ready: dict[str, Any]  # what the ps said

    def target(self, worker: int) -> str:
        return "grpc://" + self.config["cluster"]["worker"][worker]


@contextlib.contextmanager
def running(token: str) -> Iterator[Job]:
    chief, ps, worker = ([f"localhost:{port}"] for port in free_ports(3))
    config = {"cluster": {"chief": chief, "ps": ps, "worker": worker}, "rpc_layer": "grpc"}
    processes = list[Process]()
    try:
        for task in ("ps", "worker"):
            said = {**config, "task": {"type": task, "index": 0}}
            secret = {"TFWAVE_TOKEN": token}
            processes.append(forked(said, "--json", "--metrics", "0", environment=secret))
        ready, _ = [json.loads(read_line(process)) for process in processes]
        yield Job(config, token, processes[0], processes[1], ready)
    finally:
        for process in processes:
            end(process)
