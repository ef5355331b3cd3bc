"""The native sequencer alone, under real threads, with ThreadSanitizer where the compiler has it."""

from pathlib import Path

from tests.unit.native_program import assert_holds, needs_compiler

WITHOUT_TENSORFLOW = (
    "sequencer*.cc",
    "priority_*.cc",
    "table.cc",
    "*_log.cc",
    "pacer.cc",
    "shallow_sockets.cc",
)
TESTS = sorted(Path(__file__).parent.glob("*_test.cc"))


@needs_compiler
def test_sequencer(tmp_path: Path) -> None:
    assert_holds(tmp_path, WITHOUT_TENSORFLOW, TESTS, 60)
