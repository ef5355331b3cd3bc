"""Processes of their own: the pool of the CPU is there once for all that a process runs."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.fork_server import Forked
from tfwave.runtime.allocator import AllocatorSettings, cpu_variables

ROOT = Path(__file__).parents[2]
PROCESS_SECONDS = 380
"""Many times what a process takes, and less than what pytest gives a test."""


def said_by(module: str, *arguments: str, seconds: float = PROCESS_SECONDS) -> dict[str, Any]:
    """What a process prints that is started anew: it may set its pool up itself."""
    ran = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env=_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )
    assert ran.returncode == 0, (ran.stdout + ran.stderr)[-2000:]
    return json.loads(ran.stdout)


def said_in_pool(mebibytes: int, module: str, *arguments: str, **variables: str) -> dict[str, Any]:
    """What a process prints that has TensorFlow already, and a pool of so many MiB."""
    return json.loads(printed_in_pool(mebibytes, module, *arguments, variables=variables))


def printed_in_pool(
    mebibytes: int, module: str, *arguments: str, ends: int = 0, variables: Mapping[str, str] | None = None
) -> str:
    """Its output as it is; `ends`: the exit status, or minus the signal that must end it.

    TensorFlow reads the limit when it makes the pool, which is after the fork. A program that asks for another
    limit than the one given is refused by `limit_memory` itself.
    """
    pool = cpu_variables(AllocatorSettings(mebibytes << 20))
    process = Forked(module, arguments, _environment() | pool | dict(variables or {}), stderr=True)
    try:
        out, errors = process.communicate(PROCESS_SECONDS)
    finally:
        process.kill()
    assert process.returncode == ends, (out + errors)[-2000:]
    return out


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TF_CPU", "TF_ENABLE"))}
    return kept | {"TF_CPP_MIN_LOG_LEVEL": "3"}
