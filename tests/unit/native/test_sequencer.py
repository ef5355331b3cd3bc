"""The native sequencer alone, under real threads, under each sanitizer."""

from pathlib import Path

import pytest

from tests.unit.native.native_program import (
    FEW_THREADS,
    OF_PROCESS,
    assert_holds,
    each_sanitizer,
    needs_compiler,
)

TESTS = sorted(Path(__file__).parent.glob("*_test.cc"))


@pytest.mark.timeout(300)
@needs_compiler
@each_sanitizer
def test_sequencer(tmp_path: Path, sanitizer: str) -> None:
    assert_holds(tmp_path, (*OF_PROCESS, "process/api.cc"), TESTS, 120, sanitizer, sync=FEW_THREADS)
