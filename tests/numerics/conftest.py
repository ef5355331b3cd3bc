from importlib import import_module
from typing import Any

import pytest

from tests.numerics.corpus import LARGE, SAMPLES
from tests.numerics.corpus.places import set_up

LONGEST = (
    *LARGE,
    "test_auto_waves.py",
    "test_fitting.py",
    "test_colocate_pool.py",
    "test_fit_memory.py",
    "test_embedding.py",
    "test_colocate.py",
    "test_planned_pool.py",
    "test_memory_profile.py",
)
"""These groups begin first, so that all processes end at about the same time."""


@pytest.fixture(scope="session", autouse=True)
def logical_devices() -> None:
    """The same for all tests of a process: TensorFlow takes them before it first runs, and never after."""
    set_up()


@pytest.fixture
def tf() -> Any:
    return import_module("tensorflow")


def group_of(node_id: str) -> str:
    """The sample that a test leans on, or its file."""
    path, _, case = node_id.partition("::")
    parameters = case.partition("[")[2].rstrip("]").split("-")
    return next((name for name in parameters if name in SAMPLES), path.rpartition("/")[2])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group by group, the longest ones first."""
    rank = {group: number for number, group in enumerate(LONGEST)}
    items.sort(key=lambda item: (rank.get(group_of(item.nodeid), len(rank)), group_of(item.nodeid)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """By groups: a sample of all files, or what a file has in common, is built and run in one process only.

    Marks of pytest-xdist's own groups do nothing with pytest 9.2: it writes them into the names of tests.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return ByGroup(config, log) if config.getoption("dist") == "loadgroup" else None
