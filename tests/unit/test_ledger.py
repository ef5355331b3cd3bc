"""The native ledger alone, asked by hand and at random, with ThreadSanitizer where the compiler has it."""

from pathlib import Path

from tests.unit.native_program import assert_holds, needs_compiler

SOURCES = ("footprint.cc", "ledger.cc", "ledger_admission.cc", "ledger_deadline.cc")
TESTS = sorted(Path(__file__).parent.glob("ledger/*.cc"))


@needs_compiler
def test_ledger(tmp_path: Path) -> None:
    assert_holds(tmp_path, SOURCES, TESTS, 120)
