"""The native ledger alone, asked by hand and at random, with ThreadSanitizer where the compiler has it."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
NATIVE = ROOT / "tfwave" / "native"
SOURCES = ("footprint.cc", "ledger.cc", "ledger_admission.cc", "ledger_deadline.cc")
TESTS = sorted(Path(__file__).parent.glob("ledger/*.cc"))
COMPILER = shutil.which("g++") or shutil.which("clang++")


def _compile(program: Path, *flags: str) -> bool:
    files = [*(NATIVE / name for name in SOURCES), *TESTS]
    common = ["-std=c++17", "-g", "-O1", "-Wall", "-Wextra", "-pthread", f"-I{NATIVE}", "-o", str(program)]
    return subprocess.run([str(COMPILER), *flags, *common, *map(str, files)], check=False).returncode == 0


@pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")
def test_ledger(tmp_path: Path) -> None:
    sanitized, plain = tmp_path / "sanitized", tmp_path / "plain"
    if _compile(sanitized, "-fsanitize=thread"):
        result = _run(sanitized)
        if (
            "FATAL: ThreadSanitizer" not in result.stderr
        ):  # some kernels' memory layout keeps it from starting
            assert (result.returncode, result.stdout) == (0, "all hold\n"), result.stderr
            return
    assert _compile(plain)
    result = _run(plain)
    assert (result.returncode, result.stdout) == (0, "all hold\n"), result.stderr


def _run(program: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program], capture_output=True, text=True, timeout=120, check=False)
