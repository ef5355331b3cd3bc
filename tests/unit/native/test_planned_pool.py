"""The core of the native planned pool, asked by hand, at random and by threads, under each sanitizer."""

from pathlib import Path

import pytest

from tests.unit.native.native_program import assert_holds, each_sanitizer, needs_compiler

TESTS = sorted(Path(__file__).parent.glob("planned_pool/*.cc"))


@pytest.mark.timeout(300)
@needs_compiler
@each_sanitizer
def test_planned_pool(tmp_path: Path, sanitizer: str) -> None:
    assert_holds(tmp_path, ["pool/planned_pool.cc"], TESTS, 120, sanitizer)
