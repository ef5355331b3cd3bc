"""How copies use CUDA's driver, with each sanitizer; no GPU is needed."""

from pathlib import Path

import pytest

from tests.unit.native.native_program import assert_holds, each_sanitizer, needs_compiler

TESTS = sorted(Path(__file__).parent.glob("gpu/*.cc"))


@pytest.mark.timeout(300)
@needs_compiler
@each_sanitizer
def test_gpu_mover(tmp_path: Path, sanitizer: str) -> None:
    assert_holds(tmp_path, ("pool/gpu_mover.cc",), TESTS, 120, sanitizer)
