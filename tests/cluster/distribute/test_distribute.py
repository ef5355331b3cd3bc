"""Wrapped strategies on jobs of real servers: ordered exactly, with equal bits, through all that may happen."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.job import Job, job
from tests.full import each
from tests.waiting import wait_until

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def servers() -> Iterator[Job]:
    with job() as started:
        yield started


@pytest.fixture(scope="module")
def stock_servers() -> Iterator[Job]:
    with job(1, 1, stock=True) as started:
        yield started


def kept(found: dict[str, Any]) -> None:
    """Each ordered step kept its order; a busy machine may have made a function seem slow: it is measured again."""
    assert set(found["phases"].values()) <= {"ordered", "measured unordered"}, found
    figures = found["figures"]
    assert figures["tfwave_exact_share"] == 1
    assert figures["tfwave_planned_share"] > 0.9  # a step may have begun before its plan came
    assert figures["tfwave_inversions"] == 0


@pytest.mark.parametrize("model", each(["recommender", "resnet"], ["resnet"]))
def test_synchronous_losses_are_equal_bit_for_bit(servers: Job, model: str) -> None:
    wrapped = servers.chief("losses", model=model, steps=20, wrapped=True)
    stock = servers.chief("losses", model=model, steps=len(wrapped["losses"]), wrapped=False)
    assert stock["losses"] == wrapped["losses"]
    assert len(set(stock["losses"])) > len(stock["losses"]) / 2
    kept(wrapped)


@pytest.mark.long
def test_functions_models_and_batch_sizes_do_not_disturb_each_other(servers: Job) -> None:
    found = servers.chief("mixed", steps=10)
    kept(found)
    assert len(found["phases"]) == 6


@pytest.mark.parametrize("enforcer", ["auto", "hook"])
def test_servers_without_tfwave(stock_servers: Job, enforcer: str) -> None:
    found = stock_servers.chief("trained", steps=5, enforcer=enforcer)
    if enforcer == "auto":
        assert found["steps"] == 5
        assert found["phases"] == {}
        assert found["errors"].count("training goes on unordered") == 1
    else:
        assert "no control service answers" in found["refused"]


def test_the_enforcer_can_be_asked_for(servers: Job) -> None:
    found = servers.chief("trained", steps=5, enforcer="proxy")
    assert "orders by the hook, not the proxy" in found["refused"]


def test_a_worker_is_killed_and_comes_back(servers: Job, tmp_path: Path) -> None:
    flag = tmp_path / "kill"
    chief = servers.start_chief("restarted", kill_at=str(flag))
    wait_until(lambda: flag.exists() or chief.poll() is not None, 300)
    servers.kill("worker", 1)
    servers.start("worker", 1)
    servers.wait_for("worker", 1)
    flag.unlink()
    kept(servers.result(chief))


def test_a_parameter_server_is_lost_and_the_job_starts_again(servers: Job, tmp_path: Path) -> None:
    before = servers.chief("checkpointed", directory=str(tmp_path), steps=60)
    kept(before)
    servers.kill("ps", 1)
    servers.start("ps", 1)
    servers.wait_for("ps", 1)
    after = servers.chief("checkpointed", directory=str(tmp_path), steps=60)
    kept(after)
    assert after["began_at"] == before["ended_at"] > 0


def test_two_devices_of_a_worker_are_ordered() -> None:
    """What they pull, each on its channel; what one hands the other does not pass the hook."""
    with job(1, 1, cpus=2) as servers:
        found = servers.chief("two_devices", steps=20)
    kept(found)
    source, worker = "/job:ps/replica:0/task:0/device:CPU:0", "/job:worker/replica:0/task:0/device:CPU"
    assert found["orders"] == {f"{source} -> {worker}:{i}": 4 for i in range(2)}
    assert len(found["outputs"]) == 1


def test_no_compiler_is_needed(tmp_path: Path) -> None:
    """Servers that find none, nor a library that is built, order by the proxy."""
    bare = {"CXX": "", "PATH": "/nonexistent", "TFWAVE_CACHE_DIR": str(tmp_path)}
    with job(environment=bare) as servers:
        found = servers.chief("losses", model="recommender", steps=45, wrapped=True)
        kept(found)


def test_the_offline_cut_is_the_workers(tmp_path: Path) -> None:
    dump = {
        "TF_DUMP_GRAPH_PREFIX": str(tmp_path),
        "TF_DUMP_GRAPH_NAME_FILTER": "*",
        "TF_DUMP_GRAPH_GROUPS": "main",
    }
    with job(environment=dump) as servers:
        found = servers.chief("cut", model="image")
    mine = {tuple(t) for t in found["transfers"]}
    assert len(mine) > 10
    assert mine == received(tmp_path, found["function"])


def received(directory: Path, function: str) -> set[tuple[str, str]]:
    """(source device, source node) of the tensors that arrive at worker 0, in the partitions that it dumped."""
    from google.protobuf import text_format

    from tfwave.graph.names import edge_source
    from tfwave.proto.tensorflow_pb2 import GraphDef

    found: set[tuple[str, str]] = set()
    for file in directory.glob(f"*{function}*"):
        graph = text_format.Parse(file.read_text(), GraphDef())
        for node in graph.node:
            if node.op == "_Recv" and "/job:worker" in node.attr["recv_device"].s.decode():
                source = node.attr["send_device"].s.decode()
                node_there = edge_source(node.attr["tensor_name"].s.decode())
                if "/job:ps" in source and not node_there.startswith("GroupCrossDeviceControlEdges"):
                    found.add((source, node_there))
    return found
