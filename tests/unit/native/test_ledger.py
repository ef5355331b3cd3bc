"""The native ledger alone, asked by hand and at random, under each sanitizer."""

from pathlib import Path

import pytest

from tests.unit.native.native_program import LEDGER, assert_holds, each_sanitizer, needs_compiler

TESTS = sorted(Path(__file__).parent.glob("ledger/*.cc"))


@pytest.mark.timeout(300)
@needs_compiler
@each_sanitizer
def test_ledger(tmp_path: Path, sanitizer: str) -> None:
    assert_holds(tmp_path, LEDGER, TESTS, 120, sanitizer)
