"""The native all-to-all alone, among ranks of one process, with each sanitizer."""

from pathlib import Path

import pytest

from tests.unit.native.native_program import FEW_THREADS, assert_holds, each_sanitizer, needs_compiler

SOURCES = ("exchange/*.cc",)
TESTS = sorted(Path(__file__).parent.glob("all_to_all/*.cc"))


@pytest.mark.timeout(300)
@needs_compiler
@each_sanitizer
def test_all_to_all(tmp_path: Path, sanitizer: str) -> None:
    assert_holds(tmp_path, SOURCES, TESTS, 120, sanitizer, sync=FEW_THREADS)
