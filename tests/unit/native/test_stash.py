"""The native stash alone, by hand and under threads, with each sanitizer."""

from pathlib import Path

import pytest

from tests.unit.native.native_program import assert_holds, each_sanitizer, needs_compiler

SOURCES = ("pool/copy_thread.cc", "pool/stash.cc")
TESTS = sorted(Path(__file__).parent.glob("stash/*.cc"))


@pytest.mark.timeout(300)
@needs_compiler
@each_sanitizer
def test_stash(tmp_path: Path, sanitizer: str) -> None:
    assert_holds(tmp_path, SOURCES, TESTS, 120, sanitizer)
