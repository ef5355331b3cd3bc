"""`fit` on several processes with `tfwave.keras.PartialReduce`: same bits, a death, and synchronous training."""

import json
import re
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.keras.reduce_task import EPOCHS, STEPS
from tests.cluster.speaker import spawn
from tests.full import each
from tests.ports import free_ports

SECONDS = 250
MODEL: dict[str, Any] = {"steps_per_execution": 3, "policy": "mixed_bfloat16"}
FIGURES = {"tfwave_reduces", "tfwave_joined", "tfwave_dropped"}


def train(workers: int, task: str = "reduce_task", **given: Any) -> tuple[list[int], list[dict[str, Any]]]:
    """Exit codes, and what those who lived ended with."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(workers)]
    cluster = {"worker": addresses}
    configs = [
        json.dumps({"cluster": cluster, "task": {"type": "worker", "index": rank}}) for rank in range(workers)
    ]
    started = [
        spawn(f"tests.cluster.keras.{task}", json.dumps(given), variables={"TF_CONFIG": config}, stderr=True)
        for config in configs
    ]
    try:
        ended = [process.communicate(timeout=SECONDS) for process in started]
    finally:
        for process in started:
            process.kill()
    codes = [process.wait() for process in started]
    assert all(code in {0, -signal.SIGKILL} for code in codes), [err[-2000:] for _, err in ended]
    return codes, [json.loads(out.splitlines()[-1]) for out, _ in ended if out]


@dataclass(frozen=True)
class Lost:
    """A training of four workers that lost one in its second epoch."""

    codes: list[int]
    results: list[dict[str, Any]]
    checkpoint: Path
    report: Path


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory) -> Lost:
    saved = tmp_path_factory.mktemp("saved")
    codes, results = train(
        4,
        optimizer="Adam",
        **MODEL,
        reduce={"probes": 2, "local": "sum", "report_dir": str(saved / "report")},
        victim=2,
        kill=[1, 6],
        longest_step=0.02,
        save=str(saved / "{epoch}.keras"),
    )
    return Lost(codes, results, saved / "1.keras", saved / "report")


@pytest.mark.tensorflow
def test_a_worker_that_is_killed_leaves_the_others_a_complete_training(lost: Lost) -> None:
    """Metrics, validation, callbacks, mixed precision, and several steps in an execution, on four processes."""
    assert lost.codes == [0, 0, -signal.SIGKILL, 0]
    assert len({result["digest"] for result in lost.results}) == 1
    for result in lost.results:
        history = result["history"]
        assert {"loss", "accuracy", "val_loss", "val_accuracy", *FIGURES} == history.keys()
        assert all(len(values) == EPOCHS for values in history.values())
        assert history["tfwave_reduces"][-1] <= result["iterations"]
        assert result["iterations"] >= STEPS
        assert result["executions"] == EPOCHS * STEPS // MODEL["steps_per_execution"]
        assert result["restored"]
        assert result["types"] == ["bfloat16", "float32"]


@pytest.mark.tensorflow
def test_those_who_live_tell_of_all_that_were_there(lost: Lost) -> None:
    """In one directory; of who was killed there are events at most."""
    assert {page.parent.name for page in lost.report.glob("*/reduces.html")} == {
        f"worker_{rank}" for rank in (0, 1, 3)
    }
    for rank in (0, 1, 3):
        (events,) = lost.report.glob(f"worker_{rank}/events*")
        assert events.stat().st_size > 0
        text = (lost.report / f"worker_{rank}" / "reduces.md").read_text()
        parts = text.split("## Who joined, and who was late")[1].split("## ")[0]
        rows = [line.split(" | ") for line in parts.splitlines() if re.match(r"\| \d", line)]
        assert [row[0] for row in rows] == [f"| {each}" for each in range(4)]
        reduces = [int(row[3]) for row in rows]
        assert reduces[2] < reduces[0] == reduces[1] == reduces[3]


@pytest.mark.tensorflow
def test_a_checkpoint_is_resumed_by_another_number_of_workers(lost: Lost) -> None:
    """Weights, slots and counts: to the bit as one process goes on from it with the mean of two gradients."""
    codes, results = train(
        2,
        optimizer="Adam",
        **MODEL,
        reduce={"probes": "all"},
        resume=str(lost.checkpoint),
        first=1,
        synchronous=True,
    )
    assert codes == [0, 0]
    assert {result["digest"] for result in results} == {results[0]["synchronous"]}
    assert results[0]["started"] > 0
    assert {result["iterations"] for result in results} == {results[0]["started"] + (EPOCHS - 1) * STEPS}


@pytest.mark.tensorflow
@pytest.mark.parametrize(("policy", "bucket_bytes"), [("float32", 64), ("mixed_bfloat16", 1 << 20)])
def test_all_is_synchronous_training_to_the_bit(policy: str, bucket_bytes: int) -> None:
    """Also where gradients are reduced in three buckets, the first while others are computed."""
    results = synchronous(policy=policy, bucket_bytes=bucket_bytes)
    computes = policy.removeprefix("mixed_")
    assert {tuple(result["types"]) for result in results} == {(computes, "float32")}
    assert {values[-1] for result in results if (values := result["history"]["tfwave_joined"])} == {1.0}


@pytest.mark.tensorflow
def test_a_custom_loop_is_synchronous_training_to_the_bit() -> None:
    synchronous(loop=True, bucket_bytes=64)


def synchronous(**given: Any) -> list[dict[str, Any]]:
    codes, results = train(2, optimizer="SGD", reduce={"probes": "all"}, synchronous=True, **given)
    assert codes == [0, 0]
    assert {result["iterations"] for result in results} == {EPOCHS * STEPS}
    assert {result["digest"] for result in results} == {results[0]["synchronous"]}
    return results


@pytest.mark.tensorflow
@pytest.mark.long
def test_a_checkpoint_is_resumed_by_as_many_workers_that_need_not_wait(lost: Lost) -> None:
    codes, results = train(
        4,
        optimizer="Adam",
        **MODEL,
        reduce={"probes": 1},
        resume=str(lost.checkpoint),
        first=1,
        longest_step=0.02,
    )
    assert codes == [0] * 4
    assert len({result["digest"] for result in results}) == 1
    assert len({result["iterations"] for result in results}) == 1
    assert results[0]["iterations"] >= results[0]["started"] + STEPS
    assert {len(values) for result in results for values in result["history"].values()} == {EPOCHS - 1}


@pytest.mark.tensorflow
@pytest.mark.parametrize("given", each([MODEL, {"loop": True}], [{"loop": True}]))
def test_groups_end_with_the_same_weights(given: dict[str, Any]) -> None:
    """Within a group optimizers are the same, too: SGD has nothing but a count, which two groups may share."""
    codes, results = train(4, optimizer="Adam", reduce={"groups": [[0, 2], [1, 3]]}, **given)
    assert codes == [0] * 4
    assert len({result["weights"] for result in results}) == 1
    digests = {result["rank"]: result["digest"] for result in results}
    assert digests[0] == digests[2] != digests[1] == digests[3]
    for result in results:
        assert result["restored"]
        if "history" in result:
            assert result["history"].keys() > {*FIGURES, "tfwave_met"}
            assert result["history"]["tfwave_met"][-1] >= 1
            assert result["history"]["loss"][-1] < result["history"]["loss"][0]


@pytest.mark.tensorflow
def test_all_ends_with_the_weights_of_tensorflows_strategy() -> None:
    """A dense and convolutional model on the same data: equal but for the rounding of sums."""
    codes, results = train(
        2,
        "stock_task",
        addresses={name: [f"127.0.0.1:{port}" for port in free_ports(2)] for name in ("SGD", "Adam")},
    )
    assert codes == [0, 0]
    assert results[0] == results[1]
    for found in results[0].values():
        assert found["apart"] <= 1e-6
        assert found["moved"] > 0.01
