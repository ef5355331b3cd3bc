"""What tfwave decides about real models, and makes of them, is what it was, byte for byte."""

from collections.abc import Iterator
from difflib import unified_diff
from itertools import islice

import pytest

from tests.golden.cases import CASES, EXPECTED, among_inputs, golden

MOST_LINES = 40


@pytest.fixture(scope="module", autouse=True)
def _inputs() -> Iterator[None]:
    with among_inputs():
        yield


@pytest.mark.parametrize("name", CASES)
def test_golden(name: str) -> None:
    wanted, found = golden(name).read_text(), CASES[name]()
    if found != wanted:
        pytest.fail(
            f"{difference(name, wanted, found)}\n`make goldens` writes them again, if so it should be"
        )


def difference(name: str, wanted: str, found: str) -> str:
    lines = unified_diff(
        wanted.splitlines(), found.splitlines(), f"{name}: before", f"{name}: now", "", "", 1, ""
    )
    shown = list(islice(lines, MOST_LINES + 1))
    return "\n".join([*shown[:MOST_LINES], *["..."] * (len(shown) > MOST_LINES)])


def test_each_file_has_its_case() -> None:
    assert {file.relative_to(EXPECTED) for file in EXPECTED.rglob("*.txt")} == {
        golden(name).relative_to(EXPECTED) for name in CASES
    }
