"""C++ tests of the native library's parts that need no TensorFlow: compiled into one program, and run."""

import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from tests.unit.compiled import compiled

NATIVE = Path(__file__).parent.parent.parent / "tfwave" / "native"
COMPILER = shutil.which("g++") or shutil.which("clang++")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")


def assert_holds(directory: Path, patterns: Iterable[str], tests: Sequence[Path], seconds: float) -> None:
    """Compile the native sources and the tests, and run them; with ThreadSanitizer where the compiler has it.

    All is compiled as one, as headers take most of the time.
    """
    sources = [path for pattern in patterns for path in sorted(NATIVE.glob(pattern))]
    joined = directory / "joined.cc"
    joined.write_text("".join(f'#include "{path}"\n' for path in (*sources, *tests)))
    if sanitized := _compile(joined, "-fsanitize=thread"):
        result = _run(sanitized, seconds)
        # some kernels' memory layout keeps it from starting
        if "FATAL: ThreadSanitizer" not in result.stderr:
            assert (result.returncode, result.stdout) == (0, "all hold\n"), result.stderr
            return
    plain = _compile(joined)
    assert plain
    result = _run(plain, seconds)
    assert (result.returncode, result.stdout) == (0, "all hold\n"), result.stderr


def _compile(source: Path, *flags: str) -> Path | None:
    common = ["-std=c++17", "-g1", "-O1", "-Wall", "-Wextra", "-pthread", f"-I{NATIVE}"]
    return compiled([str(COMPILER), *flags, *common], source)


def _run(program: Path, seconds: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program], capture_output=True, text=True, timeout=seconds, check=False)
