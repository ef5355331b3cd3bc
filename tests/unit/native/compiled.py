"""C++ programs, compiled once for each source: kept in the user's cache directory, by all that goes into them."""

import os
import subprocess
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path

import platformdirs
from filelock import FileLock

from tfwave.runtime.native import CACHE_VARIABLE

ROOT = Path(__file__).parents[3]
MOST_KEPT = 60
"""Programs: those that were asked for last; each has some MB."""


def compiled(command: Sequence[str], include: Path, source: Path) -> Path | None:
    """The program that `command` makes of a source, with all that it includes; None if it cannot be compiled.

    Found again wherever the same sources lie: no folder's name goes into what it is known by.
    """
    program = _kept() / _known_by(command, preprocessed(command, include, source))
    if program.exists():
        program.touch()
        return program
    _keep_the_latest(program.parent)
    fresh = program.with_suffix(f".{os.getpid()}")
    if subprocess.run([*_located(command, include), "-o", fresh, source], check=False).returncode:
        return None
    return fresh.rename(program)


def preprocessed(command: Sequence[str], include: Path, source: Path) -> bytes:
    """All that the compiler reads; a file that tells its name tells it from the repository on."""
    read = [*_located(command, include), "-E", "-P", source]
    return subprocess.run(read, capture_output=True, check=False).stdout


def _located(command: Sequence[str], include: Path) -> list[str]:
    return [*command, f"-I{include}", f"-fmacro-prefix-map={ROOT}/="]


def _known_by(command: Sequence[str], text: bytes) -> str:
    return sha256(repr((command, _version(command[0]), text)).encode()).hexdigest()[:32]


def _kept() -> Path:
    root = Path(os.environ.get(CACHE_VARIABLE) or platformdirs.user_cache_dir("tfwave"))
    kept = root / "test-programs"
    kept.mkdir(parents=True, exist_ok=True)
    return kept


def _keep_the_latest(folder: Path) -> None:
    """One process at a time; what is being compiled has a suffix."""
    with FileLock(folder / "kept.lock"):
        programs = [program for program in folder.iterdir() if not program.suffix]
        for old in sorted(programs, key=lambda program: program.stat().st_mtime, reverse=True)[MOST_KEPT:]:
            old.unlink()


@cache
def _version(compiler: str) -> bytes:
    return subprocess.run([compiler, "--version"], capture_output=True, check=True).stdout
