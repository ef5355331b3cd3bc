"""The native library's waiting, under schedules that a seed decides: many more than real threads would try.

Its locks, conditions, threads and clock are those of tests/unit/native/scheduled/sync.h. What fails says its seed:
the same program, asked for that seed and a count of 1, fails again at the same place.
"""

import subprocess
from pathlib import Path

import pytest

from tests.unit.native.compiled import compiled
from tests.unit.native.native_program import COMPILER, LEDGER, NATIVE, ORDER, needs_compiler

SCHEDULED = Path(__file__).parent / "scheduled"
PROGRAMS = {"counted": ORDER, "by_priority": ORDER, "admitted": LEDGER}
SCHEDULES = {"counted": 400_000, "by_priority": 300_000, "admitted": 300_000}


def _program(directory: Path, scenario: str) -> Path:
    sources = [path for pattern in PROGRAMS[scenario] for path in sorted(NATIVE.glob(pattern))]
    tested = [SCHEDULED / f"{name}.cc" for name in ("world", "main", scenario)]
    joined = directory / "joined.cc"
    bound = f'#define TFWAVE_SYNC "{SCHEDULED}/sync.h"\n'
    joined.write_text(bound + "".join(f'#include "{path}"\n' for path in (*sources, *tested)))
    strict = ("-std=c++17", "-Wall", "-Wextra", "-Werror", "-O2", "-g1")
    program = compiled([str(COMPILER), *strict], NATIVE, joined)
    assert program, "it does not compile: the compiler's words are above"
    return program


def _run(program: Path, first: int, count: int) -> str:
    result = subprocess.run(
        [program, str(first), str(count)], capture_output=True, text=True, timeout=360, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@needs_compiler
@pytest.mark.parametrize("scenario", PROGRAMS)
def test_schedules(tmp_path: Path, scenario: str) -> None:
    program = _program(tmp_path, scenario)
    assert _run(program, 5, 100) == _run(program, 5, 100), "a seed must decide all of a schedule"
    count = SCHEDULES[scenario]
    assert _run(program, 0, count).startswith(f"{count} schedules, ")


def test_there_are_a_million() -> None:
    assert sum(SCHEDULES.values()) >= 1_000_000
