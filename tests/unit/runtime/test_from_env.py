"""TF_CONFIG from what a scheduler sets: pods by their numbers, ranks of Slurm by their places."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfwave.cli.server import _read
from tfwave.errors import EnforcerError
from tfwave.runtime.control.from_env import config_from_environment, expand_nodes

JOBS = "chief=1 ps=1 worker=2"
POD = {"TFWAVE_JOBS": JOBS, "TFWAVE_HOSTS": "t-{job}-0-{index}.t", "TFWAVE_JOB": "worker"}
POD |= {"JOB_COMPLETION_INDEX": "1"}
BATCH = {"TFWAVE_JOBS": JOBS, "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_TASKS_PER_NODE": "2,1"}
STEP = BATCH | {
    "SLURM_STEP_NODELIST": "n[1-2]",
    "SLURM_PROCID": "2",
    "SLURM_NODEID": "1",
    "SLURM_LOCALID": "0",
}


def test_a_pod() -> None:
    assert config_from_environment(POD) == {
        "cluster": {
            "chief": ["t-chief-0-0.t:2222"],
            "ps": ["t-ps-0-0.t:2222"],
            "worker": ["t-worker-0-0.t:2222", "t-worker-0-1.t:2222"],
        },
        "task": {"type": "worker", "index": 1},
    }


def test_another_port() -> None:
    config = config_from_environment(POD | {"TFWAVE_PORT": "7000"})
    assert config["cluster"]["ps"] == ["t-ps-0-0.t:7000"]


def test_ranks_of_slurm() -> None:
    cluster = {"ps": ["n1:2222"], "worker": ["n1:2223", "n2:2222"], "chief": ["n1:2224"]}
    assert config_from_environment(STEP) == {"cluster": cluster, "task": {"type": "worker", "index": 1}}
    assert config_from_environment(BATCH) == {"cluster": cluster, "task": {"type": "chief", "index": 0}}


def test_tasks_in_runs() -> None:
    many = {"TFWAVE_JOBS": "ps=2 worker=5", "SLURM_JOB_NODELIST": "n[1-4]", "SLURM_TASKS_PER_NODE": "2(x3),1"}
    cluster = config_from_environment(many)["cluster"]
    assert cluster == {
        "ps": ["n1:2222", "n1:2223"],
        "worker": ["n2:2222", "n2:2223", "n3:2222", "n3:2223", "n4:2222"],
    }


@pytest.mark.parametrize(
    ("environment", "why"),
    [
        ({}, "TFWAVE_JOBS is ''"),
        (POD | {"TFWAVE_JOBS": "ps=1,worker=2"}, "TFWAVE_JOBS is 'ps=1,worker=2'"),
        (POD | {"TFWAVE_JOBS": "ps=999999999"}, "TFWAVE_JOBS is 'ps=999999999'"),
        ({"TFWAVE_JOBS": JOBS}, "no scheduler tells where the tasks are"),
        (POD | {"TFWAVE_HOSTS": "t-0.t"}, "with {job} and {index} in it"),
        (POD | {"TFWAVE_JOB": "master"}, "TFWAVE_JOB is 'master' and JOB_COMPLETION_INDEX 1"),
        (POD | {"JOB_COMPLETION_INDEX": "2"}, "JOB_COMPLETION_INDEX 2: TFWAVE_JOBS has no such task"),
        (POD | {"JOB_COMPLETION_INDEX": "first"}, "JOB_COMPLETION_INDEX is 'first': it must be a number"),
        (POD | {"TFWAVE_PORT": "-1"}, "TFWAVE_PORT is '-1'"),
        (BATCH | {"SLURM_TASKS_PER_NODE": "2"}, "Slurm has 2 tasks on 2 nodes, TFWAVE_JOBS 3 servers"),
        (BATCH | {"SLURM_TASKS_PER_NODE": "1(x3)"}, "Slurm has 3 tasks on 2 nodes"),
        (BATCH | {"SLURM_JOB_NODELIST": "n[1-"}, "'n[1-' is no list of nodes"),
        (STEP | {"SLURM_PROCID": "1"}, "rank 1 is not where it is expected: give srun --distribution=block"),
        (STEP | {"SLURM_PROCID": "3"}, "rank 3 is not where it is expected"),
    ],
)
def test_what_is_refused(environment: Any, why: str) -> None:
    with pytest.raises(EnforcerError, match=re.escape(why)):
        config_from_environment(environment)


def test_the_cluster_is_told_in_one_way() -> None:
    with pytest.raises(EnforcerError, match="--from-env and --config both tell of the cluster"):
        _read("cluster.json", True)


@pytest.mark.parametrize(
    ("nodes", "names"),
    [
        ("n1", ["n1"]),
        ("a[1-2,07],b", ["a1", "a2", "a07", "b"]),
        ("n[08-11]", ["n08", "n09", "n10", "n11"]),
        ("r[1-2]n[3-4]-x", ["r1n3-x", "r1n4-x", "r2n3-x", "r2n4-x"]),
    ],
)
def test_lists_of_nodes(nodes: str, names: list[str]) -> None:
    assert expand_nodes(nodes) == names


@given(st.text(alphabet="an[]-,01", max_size=12))
def test_any_list_of_nodes_is_expanded_or_refused(nodes: str) -> None:
    try:
        names = expand_nodes(nodes)
    except EnforcerError:
        return
    assert all(names)
    assert not any(mark in name for name in names for mark in "[],")
