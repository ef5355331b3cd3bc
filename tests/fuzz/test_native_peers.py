"""What other processes say to the native library, damaged, under each sanitizer; and what broke it once.

`make fuzz` takes many more rounds: TFWAVE_TEST_ROUNDS says how many, TFWAVE_TEST_SEED which is the first.
"""

import os
from pathlib import Path

import pytest

from tests.unit.native.native_program import ORDER, assert_holds, needs_compiler

SOURCES = ("exchange/*.cc", *ORDER)
HERE = Path(__file__).parent
FRAMES = sorted((HERE / "crashers" / "frames").iterdir())
ROUNDS = int(os.environ.get("TFWAVE_TEST_ROUNDS", "300"))
SEED = os.environ.get("TFWAVE_TEST_SEED", "1")
SECONDS = 120 + ROUNDS // 20


@pytest.mark.timeout(SECONDS + 180)
@needs_compiler
def test_whatever_comes_is_taken_or_refused(tmp_path: Path) -> None:
    asked = (SEED, str(ROUNDS), *map(str, FRAMES))
    assert_holds(tmp_path, SOURCES, [HERE / "native" / "peers.cc"], SECONDS, "address,undefined", *asked)
