from collections.abc import Iterator

import pytest

from tests.cluster.cluster import Cluster, hooked
from tfwave.runtime.control.client import ControlClient


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
