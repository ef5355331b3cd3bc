from collections.abc import Iterator

import pytest

from tests.cluster.cluster import Cluster, running
from tfwave.runtime.control import ControlClient


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running() as started:
        yield started


@pytest.fixture
def ps0(cluster: Cluster) -> Iterator[ControlClient]:
    """The hook of ps0, as it was at the start."""
    with ControlClient(cluster.ps0.control[0]) as client:
        yield client
        client.configure(enabled=True, deadline_seconds=5, bytes_per_second=0)
        client.remove()
