"""tfwave.embedding with two workers: each step's gradients reach their rows once, whichever worker made it."""

from collections.abc import Iterator

import pytest

from tests.cluster.chief_cluster import ChiefCluster, running

ALL = {"rows": True, "columns": True, "whole": True}


@pytest.fixture(scope="module")
def both() -> Iterator[ChiefCluster]:
    """Two servers and two workers."""
    with running("tests.cluster.embedding.embedding_workers", 2) as cluster:
        yield cluster


@pytest.mark.parametrize("options", [{"staleness": 0}, {"staleness": 2}, {"staleness": 0, "hot_bytes": 80}])
def test_no_gradient_is_lost_or_applied_twice(both: ChiefCluster, options: dict[str, int]) -> None:
    """Also of rows that both workers keep during a call."""
    assert both.chief.run("ledger", **options) == ALL


def test_nor_is_one_when_a_worker_is_killed_between_calls(both: ChiefCluster) -> None:
    assert both.chief.run("loses_one_of_two", both.tasks["second"].kill) == ALL
