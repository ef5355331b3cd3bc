"""The parts of the measurement, which of them are left, and how each is run: by itself, and for so long at most."""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfwave.files import write_whole

GRACE_SECONDS = 5.0
"""So long a part may take to end when it is told to."""
TELL_SECONDS = 2.0
LEAST_SECONDS = 30.0
"""A part that has less left is not begun."""
MACHINE = "machine"
"""The key of the row that tells where the others were made."""
DONE, CUT, FAILED, RUNNING = "done", "cut", "failed", "running"


@dataclass(frozen=True)
class Part:
    """What is measured by a module of `tools/gpu`, and the most seconds that one run of it takes."""

    name: str
    seconds: float
    about: str

    @property
    def module(self) -> str:
        """That runs it."""
        return f"tools.gpu.{self.name}"


PARTS = (
    Part("see", 180, "whether TensorFlow sees the GPU, the native library, tfwave doctor"),
    Part("allocator", 240, "the settings of the pool, and its peak against the model's word"),
    Part("capacity", 330, "two waves, two and four jobs: the most that a memory holds, and the peaks"),
    Part("waves", 165, "two waves: throughput against one larger batch in as much memory"),
    Part("jobs", 165, "two and four jobs in one memory: throughput"),
    Part("fit", 300, "offload and recompute: batches, times, bytes that move, and what hides them"),
    Part("streams", 90, "a foreground and a background, by the priorities of their streams"),
)


@dataclass(frozen=True)
class Result:
    """What is known of a part, kept in a folder: its rows, and beside them how far it came."""

    part: Part
    device: str
    folder: Path

    @property
    def name(self) -> str:
        """Of the file; one that was not measured on a GPU is not called after it."""
        return f"{self.device}-{self.part.name}.json"

    @property
    def state(self) -> Mapping[str, Any]:
        """How it ended, and the seconds that its runs took; empty if it was never begun."""
        path = self.folder / "state.json"
        return json.loads(path.read_text()) if path.exists() else {}

    def begun(self) -> None:
        """Note that a run begins."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._keep(RUNNING, self.state.get("seconds", []))

    def ended(self, status: str, seconds: float) -> None:
        """Note how a run ended."""
        self._keep(status, [*self.state.get("seconds", []), round(seconds, 1)])

    def _keep(self, status: str, seconds: Sequence[float]) -> None:
        write_json(self.folder / "state.json", {"status": status, "seconds": seconds})

    @property
    def rows(self) -> dict[str, dict[str, Any]]:
        """By their keys."""
        return rows_in(self.folder / "rows.jsonl")

    def told(self, environment: Mapping[str, object]) -> dict[str, Any] | None:
        """All that is known so far, as other records have it; None before anything is."""
        rows = self.rows
        machine = rows.pop(MACHINE, None)
        if machine is None:
            return None
        state = self.state
        result = {
            "device": self.device,
            "status": state.get("status"),
            **environment,
            "rows": list(rows.values()),
        }
        run = {
            "command": f"tools/gpu/run.sh --device {self.device} {self.part.name}",
            "machine": {name: value for name, value in machine.items() if name != "key"},
            "seconds": sum(state.get("seconds", [])),
            "result": result,
        }
        return {"runs": [run]}


def rows_in(path: Path) -> dict[str, dict[str, Any]]:
    """The rows of a part by their keys, the last of each; a line that was cut short is none."""
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return {row["key"]: row for row in map(json.loads, lines)}


def write_json(path: Path, values: object) -> None:
    """Put a file in the place of another, so that at no time half of one is there."""
    write_whole(path, (json.dumps(values, indent=1) + "\n").encode())


def left(names: Sequence[str], results: Mapping[str, Result]) -> list[Part]:
    """The parts that are run now: of these names, or of all, those that are not done.

    Without names those that were never begun come first, so that one that takes too long keeps no other from its
    turn.
    """
    open_ones = [part for part in PARTS if results[part.name].state.get("status") != DONE]
    if names:
        return [part for part in open_ones if part.name in names]
    return sorted(open_ones, key=lambda part: bool(results[part.name].state))


def run_part(
    command: Sequence[str],
    environment: Mapping[str, str],
    seconds: float,
    log: Path,
    tell: Callable[[], None],
) -> str:
    """Run a part in a process group of its own, and tell what it has found now and then; how it ended.

    Behind its time the whole group is told to end, and killed where it does not.
    """
    end = time.monotonic() + seconds
    with log.open("ab") as file:
        process = subprocess.Popen(
            command, env=dict(environment), stdout=file, stderr=file, start_new_session=True
        )
    try:
        while time.monotonic() < end:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(min(TELL_SECONDS, max(0.0, end - time.monotonic())))
                return DONE if process.returncode == 0 else FAILED
            tell()
        return CUT
    finally:
        end_group(process)
        tell()


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process that leads a group, and all that are in it."""
    _signal(process, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_SECONDS)
    _signal(process, signal.SIGKILL)
    process.wait()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)
