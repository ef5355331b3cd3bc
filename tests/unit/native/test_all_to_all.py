"""The native all-to-all alone, among ranks of one process, with each sanitizer."""

from pathlib import Path

import pytest

from tests.unit.native.native_program import assert_holds, each_sanitizer, needs_compiler

SOURCES = ("exchange/*.cc",)
HERE = Path(__file__).parent / "all_to_all"
TESTS = sorted(HERE.glob("*.cc"))


@pytest.mark.timeout(300)
@needs_compiler
@each_sanitizer
def test_all_to_all(tmp_path: Path, sanitizer: str) -> None:
    assert_holds(tmp_path, SOURCES, TESTS, 120, sanitizer, sync=HERE / "few_threads.h")
