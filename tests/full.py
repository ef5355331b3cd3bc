"""How much of what a test could try it tries: little in `make test`, all in `make test-long`."""

import os

IS_FULL = os.environ.get("TFWAVE_TEST_FULL") == "1"


def few_or(few: int, full: int) -> int:
    """How many: a few, or all of them in full."""
    return full if IS_FULL else few
