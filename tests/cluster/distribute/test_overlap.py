"""Training steps that overlap, on jobs of real servers: with equal bits, and in order in both directions."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.job import Job, job
from tests.waiting import wait_until

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def single() -> Iterator[Job]:
    with job(ps=2, workers=1) as started:
        yield started


@pytest.fixture(scope="module")
def pair() -> Iterator[Job]:
    with job(ps=2, workers=2) as started:
        yield started


def assert_ordered(found: dict[str, Any], workers: int = 1, steps: int = 4) -> None:
    """All tensors of the overlapped steps went by priority, from the servers and from the workers."""
    assert found["figures"]["tfwave_exact_share"] == 1
    assert found["figures"]["tfwave_planned_share"] > 0.9  # a step may have begun before its plan came
    assert found["figures"]["tfwave_released"] == 0
    both = [c for c in found["channels"] if c["discipline"] == "priority"]
    assert all(c["violations"] == 0 and c["steps"] >= steps for c in both)
    ways = [re.findall("/job:([a-z]+)", c["channel"]) for c in both]
    assert ways.count(["worker", "ps"]) == ways.count(["ps", "worker"]) == 2 * workers, found["channels"]


def test_four_steps_a_call_train_as_single_steps_do(single: Job) -> None:
    found = single.chief("overlapped")
    assert found["single"] == found["unordered"] == found["ordered"]
    assert len(set(found["single"]["losses"])) == 24
    assert found["blocks"] > 6  # weights and biases
    assert "cut into blocks by the strategy's variable_partitioner" in found["keras"]
    assert_ordered(found)


def test_keras_fit_overlaps_as_the_planner_says(single: Job) -> None:
    found = single.chief("unrolled_fit")
    (history, weights), (expected, expected_weights) = found["ordered"], found["unordered"]
    assert weights == expected_weights
    assert history == pytest.approx(expected, rel=1e-6)
    assert len(set(history)) > len(history) / 2
    assert re.search("fit: [24] steps a call from now on", found["errors"])
    gradients = [node for node in found["pushed"] if "IdentityN" in node]
    assert len(gradients) >= 3 * 6
    assert all("/untie_" in node for node in gradients)  # each goes by itself
    assert_ordered(found)


def test_the_planner_chooses_and_two_workers_go_on(pair: Job) -> None:
    found = pair.chief("advised")
    lengths = [length for (length,) in found["shapes"]]
    assert lengths[0] == 1
    assert lengths[-1] in {2, 4}
    assert set(lengths) == {1, lengths[-1]}
    assert all(0 <= loss < 10 for loss in found["losses"])
    assert f"step: {lengths[-1]} steps a call from now on" in found["errors"]
    assert_ordered(found, workers=2, steps=1)


def test_a_worker_is_killed_between_its_steps_and_comes_back(pair: Job, tmp_path: Path) -> None:
    flag = tmp_path / "kill"
    chief = pair.start_chief("overlapped_restarted", kill_at=str(flag))
    wait_until(lambda: flag.exists() or chief.poll() is not None, 300)
    pair.kill("worker", 1)
    pair.start("worker", 1)
    pair.wait_for("worker", 1)
    flag.unlink()
    found = pair.result(chief)
    assert set(found["phases"].values()) <= {"ordered", "measured unordered"}
    assert all(0 <= loss < 10 for loss in found["losses"])
    assert found["figures"]["tfwave_exact_share"] == 1
    assert all(c["violations"] == 0 for c in found["channels"])
    ways = {tuple(re.findall("/job:([a-z]+)", c["channel"])) for c in found["channels"]}
    assert ways == {("ps", "worker"), ("worker", "ps")}  # the other worker may have taken all calls since
