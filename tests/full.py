"""How much of what a test could try it tries: little in `make test`, all in `make test-long`."""

import os
from collections.abc import Container, Iterable
from typing import Any

import pytest

IS_FULL = os.environ.get("TFWAVE_TEST_FULL") == "1"


def few_or(few: int, full: int) -> int:
    """How many: a few, or all of them in full."""
    return full if IS_FULL else few


def each(values: Iterable[Any], long: Container[Any]) -> list[Any]:
    """Parameters of a test that is made with each of these values, and is long with some."""
    return [pytest.param(value, marks=[pytest.mark.long] * (value in long)) for value in values]
