"""What all parts share: their words, the machine, and rows that are kept as they come and made once."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tfwave.demo.child import die_with_parent
from tfwave.errors import EnforcerError
from tfwave.runtime.allocator import Device
from tools.bench.memory.limited import Log
from tools.bench.record import machine
from tools.gpu.gpus import Gpu, gpus
from tools.gpu.parts import MACHINE, rows_in
from tools.gpu.sizes import SIZES, Sizes

Row = dict[str, Any]
LAST_LINES = 3
"""Of what a program says that fails, in its row."""


@dataclass
class Rows:
    """The rows of a part, in a file; one that ended in an error is made again by the next run."""

    log: Log
    where: str
    """The device that they are measured on, by name."""
    failed: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """Take up those of earlier runs; a line that was cut short is taken out."""
        kept = {row["key"]: row for row in self.log.lines()}
        self._known = {key for key, row in kept.items() if "error" not in row}

    def once(self, key: str, make: Callable[[], Mapping[str, Any]]) -> None:
        """Make a row, unless it is there; what keeps it from being made is its error."""
        if key in self._known:
            return
        begin = time.monotonic()
        try:
            made = dict(make())
        except Exception as error:  # the row tells, and the others are made
            made = {"error": f"{type(error).__name__}: {error}"}
        taken = round(time.monotonic() - begin, 2)
        with self._lock:
            if "error" in made:
                self.failed += 1
            else:
                self._known.add(key)
            self.log.add({"key": key, "on": self.where, "took_seconds": taken, **made})
        print(f"{key}: {made.get('error', 'made')} in {taken} s", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Setting:
    """On what a part measures, how much of it, and where it keeps its files."""

    device: Device
    sizes: Sizes
    folder: Path
    gpus: tuple[Gpu, ...]

    def kept(self, name: str) -> Path:
        """Where what is tried under a name is kept, for all parts."""
        return self.folder.parent / "kept" / name.replace(" ", "-")


@contextmanager
def measuring(words: list[str]) -> Generator[tuple[Setting, Rows]]:
    """A part's setting by its words, device and folder, and its rows; exits with 1 if some of them failed."""
    die_with_parent()
    device, folder = Device(words[0]), Path(words[1])
    found = gpus() if device == Device.GPU else ()
    where = found[0].name if found else str(device)
    log = Log(folder / "rows.jsonl")
    rows = Rows(log, where)
    log.add({"key": MACHINE, **machine(), "gpus": [vars(gpu) for gpu in found]})
    yield Setting(device, SIZES[device], folder, found), rows
    sys.exit(1 if rows.failed else 0)


def rows_of(folder: Path, part: str) -> dict[str, Row]:
    """What a part has found; `folder` is that of any."""
    return rows_in(folder.parent / part / "rows.jsonl")


def told(words: Sequence[str], seconds: float, variables: Mapping[str, str] | None = None) -> Row:
    """What a module, which is run with words, says on its last line.

    Raises:
        EnforcerError: it fails, or takes too long.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-m", *words],
            env=os.environ | dict(variables or {}),
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise EnforcerError(f"{words[0]} took more than {seconds:.0f} s") from error
    if done.returncode:
        last = " | ".join(done.stderr.splitlines()[-LAST_LINES:])
        raise EnforcerError(f"{words[0]} ended with {done.returncode}: {last}")
    return json.loads(done.stdout.splitlines()[-1])
