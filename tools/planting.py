"""Bugs, and copies of the repository in which they are planted and looked for."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MUTANTS = Path(__file__).with_name("mutants.json")
SECONDS = 180
"""After which named tests that hang count as ones that noticed."""

_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?\.py(?:::\S.*?)?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True)
class Mutant:
    """A bug: in `file`, `new` stands where `old` should; `tests` are those that should notice."""

    file: str
    old: str
    new: str
    why: str
    tests: tuple[str, ...]

    def fits(self, folder: Path) -> bool:
        """Whether `old` is in the file exactly once."""
        return (folder / self.file).read_text().count(self.old) == 1


def load_mutants() -> tuple[Mutant, ...]:
    """The mutants of tools/mutants.json, in order."""
    return tuple(
        Mutant(**(entry | {"tests": tuple(entry["tests"])})) for entry in json.loads(MUTANTS.read_text())
    )


def copy_repository(target: Path) -> Path:
    """Copy what git tracks or would track: the sources, no caches and no .venv."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=60)
    for name in listed.stdout.rstrip("\0").split("\0"):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, target / name)
    return target


@contextmanager
def planted(mutants: Sequence[Mutant], copy: Path) -> Iterator[None]:
    """With these bugs in a copy, all at once; they must not quote each other's lines."""
    with ExitStack() as taken_out:
        for mutant in mutants:
            file = copy / mutant.file
            before = file.read_text()
            taken_out.callback(file.write_text, before)
            file.write_text(before.replace(mutant.old, mutant.new))
        yield


def failures(tests: Sequence[str], copy: Path, *options: str, seconds: float | None = None) -> list[str]:
    """The tests among these that fail in a copy, in their order; [] if none does.

    No byte code is written, so that no stale one can be read.

    Raises:
        subprocess.TimeoutExpired: They took longer than `seconds`.
    """
    command = [sys.executable, "-m", "pytest", "-rfE", "--tb=no", "--hypothesis-seed=0", *options, *tests]
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "9999"}
    ran = subprocess.run(
        command, cwd=copy, env=environment, capture_output=True, text=True, timeout=seconds, check=False
    )
    if ran.returncode == 0:
        return []
    if failed := _FAILED.findall(ran.stdout):
        return failed
    raise RuntimeError(f"pytest cannot run {' '.join(tests)}:\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}")


def passes(tests: Sequence[str], copy: Path, seconds: float | None = SECONDS) -> bool:
    """Whether all of these pass in a copy, in time."""
    try:
        return not failures(tests, copy, "-x", seconds=seconds)
    except subprocess.TimeoutExpired:
        return False
