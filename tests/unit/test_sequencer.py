"""The native sequencer alone, under real threads, under each sanitizer."""

from pathlib import Path

import pytest

from tests.unit.native_program import assert_holds, each_sanitizer, needs_compiler

WITHOUT_TENSORFLOW = (
    "sequencer*.cc",
    "priority_*.cc",
    "table.cc",
    "edge_index.cc",
    "*_log.cc",
    "pacer.cc",
    "shallow_sockets.cc",
    "footprint.cc",
    "ledger*.cc",
    "copy_thread.cc",
    "stash.cc",
    "api.cc",
)
TESTS = sorted(Path(__file__).parent.glob("*_test.cc"))


@pytest.mark.timeout(300)
@needs_compiler
@each_sanitizer
def test_sequencer(tmp_path: Path, sanitizer: str) -> None:
    assert_holds(tmp_path, WITHOUT_TENSORFLOW, TESTS, 120, sanitizer)
