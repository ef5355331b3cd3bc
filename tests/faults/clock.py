"""A process whose wall clock jumps, by a library that stands in front of the system's calls (`clock.c`)."""

import json
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

from tests.cluster.cluster import Spec, Task
from tests.cluster.speaker import ENVIRONMENT

SOURCE = Path(__file__).with_name("clock.c")
COMPILER = shutil.which("gcc") or shutil.which("cc")
SECONDS = struct.Struct("q")


class WrongClock:
    """Of processes that it starts; right at first."""

    def __init__(self, folder: Path) -> None:
        assert COMPILER
        self._library, self._file = folder / "clock.so", folder / "clock"
        subprocess.run([COMPILER, "-shared", "-fPIC", "-o", self._library, SOURCE], check=True)
        self.set(0)

    def set(self, seconds: int) -> None:
        """It is wrong by so many seconds from now on, in those that run, too."""
        with self._file.open("r+b" if self._file.exists() else "w+b") as file:
            file.write(SECONDS.pack(seconds))

    def start(self, spec: Spec, job: str, tasks: list[int], enforcer: str | None) -> Task:
        """As `tests.cluster.cluster.start`, but in a process that has the clock from its beginning."""
        request = {"cluster": spec, "job": job, "tasks": tasks, "enforcer": enforcer}
        wrong = {"LD_PRELOAD": str(self._library), "TFWAVE_FAULTS_CLOCK": str(self._file)}
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.cluster.task", json.dumps(request)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | ENVIRONMENT | wrong,
        )
        return Task(process)
