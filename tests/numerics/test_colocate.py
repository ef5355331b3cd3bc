"""Jobs in one process and one limited pool: each computes what it computes alone, bit by bit."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from tfwave.colocate import Job, run
from tfwave.errors import EnforcerError

pytestmark = pytest.mark.tensorflow

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TF_CPU", "TF_ENABLE"))}
    ran = subprocess.run(
        [sys.executable, "-m", "tests.numerics.colocated"],
        cwd=ROOT,
        env=kept | {"TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return json.loads(ran.stdout)


def test_functions_and_sessions_compute_the_same_beside_each_other_and_after(found: dict[str, Any]) -> None:
    assert found["beside"] == found["alone"]
    assert all(len(set(losses)) == found["made"] + 2 for losses in found["alone"].values())


def test_a_job_that_fails_leaves_the_others_alone(found: dict[str, Any]) -> None:
    assert found["steps"] == {
        **dict.fromkeys(found["beside"], found["made"]),
        "breaks": found["fails after"],
        "mixed": 7,
        "short": 2,
    }
    assert sorted(found["errors"]) == ["breaks", "mixed"]
    assert found["errors"]["breaks"] == "no more data"
    assert "batch 8 of the job 'mixed' is (float32[3, 256])" in found["errors"]["mixed"]


def test_groups_ask_and_none_goes_without_room(found: dict[str, Any]) -> None:
    assert max(found["groups"].values()) > 1
    assert found["admitted"] > found["made"]
    assert found["released"] == 0
    assert found["peak"] <= found["limit"]


def test_what_ran_before_runs_again(found: dict[str, Any]) -> None:
    """TensorFlow still has it, as it was: it optimizes nothing."""
    assert found["optimized again"] == 0


def test_a_pool_without_a_limit_is_refused() -> None:
    job = Job("a", tf.function(lambda: 1), [()])
    with pytest.raises(EnforcerError, match=r"call tfwave.colocate.limit_memory\('512MiB'\) before"):
        run([job])
