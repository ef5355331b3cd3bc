"""Placed strategies on real servers: variables sit where told, numbers and checkpoints stay what they were."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.job import Job, job, run_chief

pytestmark = pytest.mark.tensorflow
KERNELS = {
    "embedding/embeddings",
    "embedding_1/embeddings",
    "dense/kernel",
    "dense_1/kernel",
    "dense_2/kernel",
}


@pytest.fixture(scope="module")
def servers() -> Iterator[Job]:
    with job(2, 1, stock=True) as started:
        yield started


def chief(servers: Job, scenario: str, **arguments: Any) -> Any:
    variables = {"TF_CONFIG": servers.tf_config("chief", 0)}
    return run_chief(
        "tests.cluster.distribute.placed_chief", scenario, json.dumps(arguments), variables=variables
    )


def beside(servers: Mapping[str, int]) -> dict[str, int]:
    """Where the momentum of each kernel is; optimizers of earlier Keras have names in capitals."""
    found = {name.lower(): server for name, server in servers.items()}
    return {name: found[f"sgd/{name.replace('/', '_')}_momentum"] for name in KERNELS}


def test_a_job_starts_again_where_its_first_run_says(servers: Job, tmp_path: Path) -> None:
    stock = chief(servers, "trained", directory=str(tmp_path), placement=None, restored=False)
    first = chief(servers, "trained", directory=str(tmp_path), placement="none", restored=False)
    file = tmp_path / "plan.json"
    assert first["losses"] == stock["losses"]
    assert len(set(stock["losses"])) == len(stock["losses"])
    assert {n: first["now"][n] for n in KERNELS} != {n: stock["servers"][n] for n in KERNELS}
    assert json.loads(file.read_text())["placement"]["variables"] == dict(sorted(first["after"].items()))
    assert {n: size for n, size in first["bytes"].items() if n in KERNELS} == {
        n: size for n, size in first["whole"].items() if n in KERNELS
    }

    asked = {name: 1 - server for name, server in first["after"].items()}
    file.write_text(json.dumps({"version": 3, "placement": {"servers": 2, "variables": asked}}))
    again = chief(servers, "trained", directory=str(tmp_path), placement=str(file), restored=True)
    assert again["now"].items() >= {n: asked[n] for n in KERNELS}.items()
    assert (
        {n: again["servers"][n] for n in KERNELS}
        == {n: asked[n] for n in KERNELS}
        == beside(again["servers"])
    )
    assert sorted(again["bytes_now"]) == sorted(first["bytes_after"])
    assert max(again["bytes_now"]) == max(again["bytes_after"])
    assert again["losses"] == stock["losses"][3:]


def test_shards_names_and_turns(servers: Job) -> None:
    found = chief(servers, "shards")
    assert (found["table"], found["same"], found["slot"]) == ([1, 1], [0, 1, 1], 0)
    assert found["free"] == [0, 0]  # 4 + 4 bytes of w and slot against 2 x 16 of the table and w
    assert found["turns"] == [1, 0, 1]  # after seven others: as if they had been dealt in turn
    assert found["placement"] == {
        "table/part_0": 1,
        "table/part_1": 1,
        "outer/w": 0,
        "outer/w#2": 1,
        "outer/w#3": 1,
        "slot": 0,
        "free": 0,
        "free#2": 0,
    }
    assert found["followers"] == [["slot"]]
    assert "for 3 servers, but the job has 2" in found["refused"][0]
    assert "places no variables on servers" in found["refused"][1]
