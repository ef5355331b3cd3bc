"""Jobs in one process and one limited pool: each computes what it computes alone, bit by bit."""

from typing import Any

import pytest
import tensorflow as tf

from tests.numerics.processes import said_by, said_in_pool
from tfwave.colocate import Job, run
from tfwave.errors import EnforcerError
from tfwave.plan.groups import UNKNOWN_SHARE

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return said_in_pool(128, "tests.numerics.colocate.colocated")


def test_functions_sessions_and_keras_models_compute_the_same_beside_each_other_and_after(
    found: dict[str, Any],
) -> None:
    assert sorted(found["alone"]) == ["keras", "one", "session", "two"]
    assert found["beside"] == found["alone"]
    assert all(len(set(losses)) == found["made"] + 2 for losses in found["alone"].values())


def test_the_plan_is_left_with_a_page_of_it(found: dict[str, Any]) -> None:
    same, files, pictures = found["left"]
    assert (same, files) == (True, [f"colocation.{kind}" for kind in ("html", "md", "plan.json")])
    assert pictures == {"text": ["tfwave/plan/colocation"], "images": ["tfwave/memory/colocation"]}


def test_a_job_that_fails_leaves_the_others_alone(found: dict[str, Any]) -> None:
    assert found["steps"] == {
        **dict.fromkeys(found["beside"], found["made"]),
        "breaks": found["fails after"],
        "mixed": 8,
        "short": 2,
    }
    assert found["errors"] == {"breaks": "no more data"}


def test_groups_ask_and_none_goes_without_room(found: dict[str, Any]) -> None:
    assert max(found["groups"].values()) > 1
    assert found["admitted"] > found["made"]
    assert found["released"] == 0
    assert found["peak"] <= found["limit"]


def test_how_busy_each_keeps_the_cores_is_known(found: dict[str, Any]) -> None:
    """Each job's own, and hence none as that of another, or as what is unknown."""
    assert len({*found["shares"], UNKNOWN_SHARE}) == len(found["groups"]) + 1
    assert all(0 < share <= 1 for share in found["shares"])


def test_what_each_waited_is_told(found: dict[str, Any]) -> None:
    waited, longest = found["waited"]
    assert sum(own for own, _ in found["seconds"].values()) == pytest.approx(waited)
    assert all(0 <= own <= whole for own, whole in found["seconds"].values())
    assert 0 < longest <= waited


def test_jobs_without_room_keep_their_first_steps_and_let_the_others_go_on(found: dict[str, Any]) -> None:
    left_out = found["without room"]
    assert left_out["steps"] == {"huge": 4, "large": 4, "small": left_out["all"]}
    assert "the job 'huge' alone peaks at" in left_out["errors"]["huge"]
    assert "the steps of the job 'small' come" in left_out["errors"]["large"]
    assert (left_out["errors"]["small"], left_out["planned"]) == ("None", ["small"])
    assert left_out["found"] == left_out["alone"]


@pytest.mark.parametrize("when", ["measured", "beside"])
def test_ctrl_c_lets_each_job_end_its_step(when: str, found: dict[str, Any]) -> None:
    stopped = found["interrupted"][when]
    assert (stopped["raised"], stopped["left"]) == (True, [])
    assert stopped["found"] == stopped["alone"]
    assert (stopped["steps"]["one"] < 6) == (when == "measured")


def test_what_ran_before_runs_again(found: dict[str, Any]) -> None:
    """TensorFlow still has it, as it was: it optimizes nothing."""
    assert found["optimized again"] == 0


def test_jobs_come_and_go_and_are_killed_in_a_limited_pool() -> None:
    """The process itself checks that it never runs out of memory, and that a step computes what it does alone."""
    soaked = said_by("tools.bench.memory.colocation_soak", "--iterations", "100")
    assert soaked["visits"] == 200
    assert min(soaked["kills"], soaked["cancellations"], soaked["waited"]) > 0
    assert (soaked["ledger_at_the_end"], soaked["let_through"]) == ({}, 0)


def test_a_pool_without_a_limit_is_refused() -> None:
    job = Job("a", tf.function(lambda: 1), [()])
    with pytest.raises(EnforcerError, match=r"call tfwave.colocate.limit_memory\('512MiB'\) before"):
        run([job])
