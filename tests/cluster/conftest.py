from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster, hooked
from tfwave.runtime.control.client import ControlClient

LONGEST = (
    "test_burst.py",
    "test_examples.py",
    "test_distribute.py",
    "test_keras_fit.py",
    "test_partial_reduce.py",
    "test_schedule_callback.py",
    "test_overlap.py",
    "test_embedding.py",
    "test_clock.py",
    "test_processes.py",
    "test_server_command.py",
)
"""These files begin first, the short faults' among them, so that all processes end at about the same time."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with hooked() as started:
        yield started


@pytest.fixture
def ps0(cluster: Cluster) -> Iterator[ControlClient]:
    """What orders in ps 0, as it was at the start."""
    with ControlClient(cluster.ps[0].control[0]) as client:
        yield client
        client.configure(enabled=True, deadline_seconds=5, bytes_per_second=0)
        client.remove()


@pytest.fixture
def short_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Socket paths are limited to 107 bytes."""
    return tmp_path_factory.mktemp("d")
