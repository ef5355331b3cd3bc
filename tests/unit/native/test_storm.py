"""The native sequencer in a storm of 64 threads, in which steps are aborted, under each sanitizer.

`make fuzz` hands off a million tensors: TFWAVE_TEST_HAND_OFFS says how many, TFWAVE_TEST_SEED how they are mixed.
"""

import os
from pathlib import Path

import pytest

from tests.unit.native.native_program import ORDER, assert_holds, each_sanitizer, needs_compiler

STORM = Path(__file__).parent / "storm" / "storm.cc"
THREADS = 64
HAND_OFFS = int(os.environ.get("TFWAVE_TEST_HAND_OFFS", "20000"))
SEED = os.environ.get("TFWAVE_TEST_SEED", "1")
SECONDS = 180 + HAND_OFFS // 500


@pytest.mark.timeout(SECONDS + 120)
@needs_compiler
@each_sanitizer
def test_each_leaves_once_and_in_order(tmp_path: Path, sanitizer: str) -> None:
    asked = (str(THREADS), str(HAND_OFFS), SEED)
    assert_holds(tmp_path, ORDER, [STORM], SECONDS, sanitizer, *asked)
