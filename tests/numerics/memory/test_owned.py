"""Variables that begin as constants, and have buffers of their own before the first step."""

from typing import Any

import pytest

from tests.numerics.processes import said_in_pool

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return said_in_pool(64, "tests.numerics.memory.owned_job")


@pytest.mark.parametrize("optimizer", ["off", "on"])
def test_a_step_takes_no_buffers_that_it_keeps(found: dict[str, Any], optimizer: str) -> None:
    """Where the graph is as it was, the first takes one for each variable."""
    plain, owned = found[optimizer]
    whole = found["bytes"]
    assert plain["grown"] > 0.9 * whole
    assert owned["grown"] < 0.2 * whole
    assert owned["losses"] == plain["losses"]
    assert len({*plain["losses"]}) == len(plain["losses"]), "it trains"
