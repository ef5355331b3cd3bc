"""tfwave.embedding on real servers and a worker, scheduled by TensorFlow's coordinator."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.chief_cluster import ChiefCluster, running

SCENARIOS = "tests.cluster.embedding.embedding_scenarios"


@pytest.fixture(scope="module")
def alone() -> Iterator[ChiefCluster]:
    """Two servers and a worker."""
    with running(SCENARIOS, 1) as cluster:
        yield cluster


def test_staged_steps_give_the_bits_of_single_ones(alone: ChiefCluster) -> None:
    facts = alone.chief.run("equal")
    assert facts["staged"] == facts["single"]
    assert len(facts["staged"]["losses"]) == 10
    assert len(set(facts["staged"]["losses"])) > 5
    assert [device.partition("/device")[0] for device in facts["devices"]] == [
        "/job:ps/replica:0/task:0",
        "/job:ps/replica:0/task:1",
    ]


@pytest.mark.parametrize(("steps", "pulls", "pushes"), [(1, 1, 1), (3, 5, 5)])
def test_many_tables_travel_in_one_tensor_each_way(
    alone: ChiefCluster, steps: int, pulls: int, pushes: int
) -> None:
    """Of each server: rows come early and late, gradients first and then, but at the ends of a call in one."""
    assert alone.chief.run("transfers", steps=steps) == {"down": 2 * pulls, "up": 2 * pushes}


def test_a_keras_model_trains_beside_a_table(alone: ChiefCluster) -> None:
    facts = alone.chief.run("keras_model")
    assert facts["staged"] == facts["single"]
    assert len(set(facts["single"])) == 9


def test_tables_of_a_process_that_has_joined_a_cluster_are_captured(
    alone: ChiefCluster, tmp_path: Path
) -> None:
    facts = alone.chief.run("captures", folder=str(tmp_path))
    assert facts["batches"] == 3
    assert "table 'users' lies on /job:ps/" in facts["refused"]


def replace(alone: ChiefCluster) -> None:
    """Kill its worker, and start another in its place."""
    alone.tasks["first"].kill()
    alone.restart("first")


def test_a_worker_that_is_killed_and_comes_back_goes_on(alone: ChiefCluster) -> None:
    facts = alone.chief.run("loses_a_worker", lambda: replace(alone))
    assert facts == {"before": 8, "after": [True] * 8}


def test_a_worker_that_is_killed_in_the_midst_of_a_call_has_no_row_updated_twice(alone: ChiefCluster) -> None:
    """By a ledger: what of each row's gradients came. Its call is made anew, when all others have been."""
    found = alone.chief.run("counts_pushes", *[lambda: replace(alone)] * 3, kills=3, calls=30)
    assert found == {"less": 0, "more": 0}


def test_a_lost_server_ends_with_the_error_of_the_coordinator(alone: ChiefCluster) -> None:
    said = alone.chief.run("loses_a_server", alone.tasks["servers"].kill)
    assert said in ("UnavailableError", "AbortedError")
