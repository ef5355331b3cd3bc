"""A group of workers that is of this process only."""

from collections.abc import Iterator

import pytest

from tests.ports import free_ports
from tfwave.embedding import Workers


@pytest.fixture(scope="module")
def alone() -> Iterator[Workers]:
    with Workers([f"127.0.0.1:{port}" for port in free_ports(1)], 0) as group:
        yield group
