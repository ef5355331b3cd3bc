"""C++ tests of the native library's parts that need no TensorFlow: compiled into one program, and run."""

import shutil
import subprocess
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.unit.native.compiled import compiled

NATIVE = Path(__file__).parents[3] / "tfwave" / "native"
ORDER = ("order/*.cc",)
LEDGER = ("pool/footprint.cc", "pool/ledger*.cc")
OF_PROCESS = (*ORDER, "pool/*.cc", "process/ledger_api.cc")
"""The sequencer, the ledger, and what lies beside them in a process and needs no TensorFlow."""
FEW_THREADS = Path(__file__).parent / "few_threads.h"
"""What `sync` takes: threads that can run out."""
COMPILER = shutil.which("g++") or shutil.which("clang++")
SANITIZERS = ("thread", "address,undefined")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")
each_sanitizer = pytest.mark.parametrize("sanitizer", SANITIZERS)

_OPTIMIZED = {"thread": "-O1", "address,undefined": "-O0"}
"""Programs with ThreadSanitizer run for long; the others are longer compiled, and mostly optimized, than run."""

_NO_RANDOM_ADDRESSES = ("setarch", "-R")  # under which ThreadSanitizer finds the memory layout that it needs


def assert_holds(
    directory: Path,
    patterns: Iterable[str],
    tests: Sequence[Path],
    seconds: float,
    sanitizer: str,
    *arguments: str,
    sync: Path | None = None,
) -> None:
    """Compile the native sources and the tests with a sanitizer and without a warning, and run them.

    All is compiled as one, as headers take most of the time. `sync`: a header to wait with, not the native one.
    """
    start = sanitized_start(sanitizer)
    sources = [path for pattern in patterns for path in sorted(NATIVE.glob(pattern))]
    joined = directory / "joined.cc"
    bound = f'#define TFWAVE_SYNC "{sync}"\n' if sync else ""
    joined.write_text(bound + "".join(f'#include "{path}"\n' for path in (*sources, *tests)))
    program = compiled(_command(sanitizer), NATIVE, joined)
    assert program, "it does not compile: the compiler's words are above"
    result = _run([*start, str(program), *arguments], seconds)
    assert (result.returncode, result.stdout) == (0, "all hold\n"), result.stderr


@cache
def sanitized_start(sanitizer: str) -> tuple[str, ...]:
    """What a program with the sanitizer must be started with; skips where none starts at all."""
    with TemporaryDirectory() as folder:
        source, program = Path(folder, "empty.cc"), Path(folder, "empty")
        source.write_text("int main() {}\n")
        if compile_program(program, source, sanitizer).returncode:
            pytest.skip(f"{COMPILER} has no runtime for -fsanitize={sanitizer}: install it")
        starts = [_NO_RANDOM_ADDRESSES, ()] if shutil.which(_NO_RANDOM_ADDRESSES[0]) else [()]
        tried = [_run([*start, str(program)], 60) for start in starts]
    for start, result in zip(starts, tried, strict=True):
        if result.returncode == 0:
            return start
    pytest.skip(
        f"nothing starts with -fsanitize={sanitizer}: {tried[-1].stderr.strip() or tried[-1].returncode}"
    )


def compile_program(program: Path, source: Path, sanitizer: str) -> subprocess.CompletedProcess[str]:
    return _run([*_command(sanitizer), "-o", str(program), str(source)], 600)


def _command(sanitizer: str) -> list[str]:
    sanitize = (f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all", _OPTIMIZED[sanitizer])
    strict = ("-std=c++17", "-Wall", "-Wextra", "-Werror", "-g1", "-pthread")
    return [str(COMPILER), *sanitize, *strict]


def _run(command: Sequence[str], seconds: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
