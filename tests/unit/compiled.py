"""C++ programs, compiled once for each source: kept in build/tests, by all that goes into them."""

import os
import subprocess
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path

KEPT = Path(__file__).parent.parent.parent / "build" / "tests"


def compiled(command: Sequence[str], source: Path) -> Path | None:
    """The program that `command` makes of a source, with all that it includes; None if it cannot be compiled."""
    preprocessed = subprocess.run(
        [*command, "-E", "-P", str(source)], capture_output=True, check=False
    ).stdout
    program = KEPT / sha256(repr((command, _version(command[0]), preprocessed)).encode()).hexdigest()[:32]
    if not program.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        fresh = program.with_suffix(f".{os.getpid()}")
        if subprocess.run([*command, "-o", str(fresh), str(source)], check=False).returncode:
            return None
        fresh.rename(program)
    return program


@cache
def _version(compiler: str) -> bytes:
    return subprocess.run([compiler, "--version"], capture_output=True, check=True).stdout
