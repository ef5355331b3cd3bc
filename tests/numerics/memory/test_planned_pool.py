"""A pool of the CPU in which a step's buffers lie as planned, in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.tensorflow

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("planned")
    command = [sys.executable, "-m", "tests.numerics.memory.planned_pool_job", str(folder)]
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_planned_step_lies_where_the_plan_says(told: dict[str, Any]) -> None:
    planned = told["planned"]
    assert planned["equal"]
    assert planned["share"] > 0.98
    assert planned["pool"] <= 1.05 * planned["peak"]
    assert planned["reach"] <= planned["region"] == told["region"]
    assert planned["live"] == 0


def test_what_is_set_only_before_tensorflow_starts_is_set(told: dict[str, Any]) -> None:
    assert told["devices"] == 1


def test_a_step_of_another_graph_lies_elsewhere(told: dict[str, Any]) -> None:
    other = told["other"]
    assert other["equal"]
    assert (other["served"], other["conflicts"]) == (0, 0)
    assert other["unknown"] > 0


def test_two_steps_at_once_share_no_byte(told: dict[str, Any]) -> None:
    threads = told["threads"]
    assert threads["equal"]
    assert threads["served"] > 0
    assert threads["live"] == 0


def test_a_plan_that_has_all_in_one_place_spoils_nothing(told: dict[str, Any]) -> None:
    colliding = told["colliding"]
    assert colliding["equal"]
    assert colliding["conflicts"] > 0


def test_another_plan_waits_until_nothing_is_held(told: dict[str, Any]) -> None:
    held = told["held"]
    assert held["served"] == 1
    assert held["said"] == (
        "1 buffers of the plan before are still held: end its steps, and free what they gave"
    )
    assert held["stays"]
    assert held["kept"] == [1, float(1 << 18), 1 << 20]
    assert held["after"] == [0, 0]
    assert held["then"] == ""


def test_a_region_beyond_the_pool_is_refused(told: dict[str, Any]) -> None:
    assert "the pool has not 68719476736 bytes in one piece for the plan" in told["too large"]


def test_without_a_plan_all_lies_elsewhere(told: dict[str, Any]) -> None:
    assert told["removed"]["equal"]
    assert told["removed"]["region"] == 0


def test_a_fitted_step_lies_where_the_plan_says(told: dict[str, Any]) -> None:
    """Whichever of its ops is done first: nothing finds its place taken, and no more is held than promised."""
    fitted = told["fitted"]
    assert fitted["equal"]
    assert fitted["conflicts"] == 0
    assert fitted["share"] > 0.98
    assert any(fitted["away"].values())
    assert fitted["promised"] <= fitted["limit"]
    packed = 1 << 20  # what matrix products pack aside, in blocks of the size of caches
    assert fitted["resident"] + fitted["pool"] <= fitted["promised"] + packed


def test_a_function_that_is_made_to_fit_lies_as_planned_by_itself(told: dict[str, Any]) -> None:
    """Batches of two shapes in turn have a plan each, and so have two functions."""
    live = told["live"]
    assert live["equal"]
    assert live["conflicts"] == 0
    assert min(live["share"], live["in turn"]) > 0.98
    assert len(live["away"]) == 2
    assert max(live["away"]) > 0
    assert live["region"] <= live["pool"] <= 1.05 * live["region"]
    assert live["promised"] <= live["limit"]


def test_what_becomes_the_value_of_a_variable_lies_in_no_place(told: dict[str, Any]) -> None:
    """Else what has that place in the next step would lie elsewhere, and no other plan could be served."""
    momentum = told["momentum"]
    assert momentum["equal"]
    assert momentum["held"] == [0, 0, 0]
    assert momentum["conflicts"] == 0
    assert momentum["released"] == 0


def test_functions_of_two_threads_take_turns(told: dict[str, Any]) -> None:
    assert told["live"]["at once"]


def test_what_a_pool_keeps_for_a_function_can_be_given_back(told: dict[str, Any]) -> None:
    assert told["live"]["released"] == 0


def test_a_model_is_validated_in_all_of_the_pool(told: dict[str, Any]) -> None:
    """Two epochs of two steps, each validated; the plan is served again for the next epoch."""
    keras = told["keras"]
    assert keras["equal"]
    assert keras["plans"] == 1
    assert len(set(keras["regions"]["train"])) == 1
    assert keras["regions"]["train"][0] > 0
    assert keras["regions"]["test"] == [0, 0]
    assert keras["after"] == 0
