"""Python processes beside the tests, and how both ends talk: lines of JSON, and answers after a mark."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.fork_server import ENVIRONMENT, Forked

ANSWER_SECONDS = 200
MARK = "TASK "

Process = subprocess.Popen[str] | Forked


def spawn(
    module: str, *arguments: str, variables: Mapping[str, str] | None = None, stderr: bool = False
) -> Forked:
    """`stderr`: whether standard error is read."""
    environment = {**os.environ, **ENVIRONMENT, **(variables or {})}
    return Forked(module, arguments, environment, stderr=stderr)


def read_line(process: Process) -> str:
    """What it prints next; one that is silent for too long is killed."""
    assert process.stdout
    guard = threading.Timer(ANSWER_SECONDS, process.kill)
    guard.start()
    line = process.stdout.readline()
    guard.cancel()
    assert line, f"the process ended with {process.wait()}, or was killed as it said nothing"
    return line


def end(process: Process) -> None:
    process.kill()
    process.wait()


@dataclass
class Speaker:
    """A process that answers commands."""

    process: Process

    def ask(self, do: str, **arguments: Any) -> Any:
        self.tell({"do": do, **arguments})
        return self.hear()

    def tell(self, what: Any) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()

    def hear(self) -> Any:
        """What it says next; what is printed besides is skipped."""
        while not (line := read_line(self.process)).startswith(MARK):
            pass
        return json.loads(line[len(MARK) :])

    def kill(self) -> None:
        end(self.process)


def say(what: Any) -> None:
    """In such a process: tell the test, also while standard output is redirected."""
    assert sys.__stdout__
    sys.__stdout__.write(f"{MARK}{json.dumps(what)}\n")
    sys.__stdout__.flush()


def obey(commands: Mapping[str, Callable[..., Any]]) -> None:
    """In such a process: answer until the test is gone."""
    for line in sys.stdin:
        command = json.loads(line)
        say(commands[command.pop("do")](**command))
