"""How long the scenes are, from which seed, and where what they saw goes."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.ledger import Ledger
from tests.faults.leftovers import nothing_left
from tests.fork_server import Forked

SHORT, SEED = 60, 1
"""Also where the options are not known: `pytest` looks for them in folders that it is given."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("faults")
    group.addoption("--steps", type=int, default=SHORT, help="steps of training of each scene")
    group.addoption("--seed", type=int, default=SEED, help="what faults and orders are drawn from")
    group.addoption("--ledger", type=Path, help="where what became of each fault is written, as JSON")


@pytest.fixture(scope="session")
def steps(request: pytest.FixtureRequest) -> int:
    return request.config.getoption("--steps", SHORT)


@pytest.fixture(scope="session")
def seed(request: pytest.FixtureRequest) -> int:
    return request.config.getoption("--seed", SEED)


@pytest.fixture(scope="session")
def counted() -> Ledger:
    return Ledger()


@pytest.fixture
def ledger(request: pytest.FixtureRequest, counted: Ledger, seed: int) -> Iterator[Ledger]:
    """What all scenes saw, written behind each."""
    yield counted
    if path := request.config.getoption("--ledger", None):
        counted.write(path, seed)


@pytest.fixture(scope="session", autouse=True)
def _forks() -> None:
    """The process that all servers are forked from stays until the tests end."""
    assert Forked("timeit", ["-n1", "-r1"], os.environ, stderr=False).wait(200) == 0


@pytest.fixture(autouse=True)
def _nothing_left(_forks: None, tmp_path: Path) -> Iterator[None]:
    with nothing_left(tmp_path):
        yield
