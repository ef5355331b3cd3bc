"""Jobs that run by a plan of an earlier run or of captures: nothing is measured, and nothing computed otherwise."""

from typing import Any

import pytest

from tests.numerics.processes import said_in_pool

BATCH, LAYERS, WIDTH = 1024, 6, 256
pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return said_in_pool(128, "tests.numerics.colocate.planned_jobs")


@pytest.mark.parametrize("way", ["measured", "again", "captured"])
def test_a_plan_changes_no_bit(found: dict[str, Any], way: str) -> None:
    assert found[way]["losses"] == found["alone"]
    assert found[way]["errors"] == {}
    assert found[way]["released"] == 0


def test_a_plan_that_was_saved_takes_the_place_of_the_measurement(found: dict[str, Any]) -> None:
    """The jobs ask for their groups from the second step on: three steps earlier."""
    groups = found["measured"]["groups"]
    assert found["again"]["groups"] == groups
    assert found["again"]["admitted"] - found["measured"]["admitted"] == 3 * sum(groups.values())


def test_what_a_job_holds_between_its_steps_is_its_own(found: dict[str, Any]) -> None:
    """The batch and the weights; of the session's, the momentum, too."""
    batch, weights = 4 * BATCH * WIDTH, 4 * LAYERS * WIDTH * WIDTH
    assert found["measured"]["resident"] == {"function": batch + weights, "session": batch + 2 * weights}


def test_what_was_traced_is_a_bundle_from_which_the_same_is_planned(found: dict[str, Any]) -> None:
    assert found["replanned"] is True


def test_a_plan_of_captures_fits_the_live_jobs(found: dict[str, Any]) -> None:
    assert sorted(found["captured"]["groups"]) == ["function", "session"]
    assert min(found["captured"]["groups"].values()) > 1
    assert found["captured"]["admitted"] == 4 * sum(found["captured"]["groups"].values())


def test_a_job_that_is_not_what_was_planned_leaves_the_others_alone(found: dict[str, Any]) -> None:
    errors = found["other"]["errors"]
    assert list(errors) == ["function"]
    assert errors["function"].startswith(
        "the job 'function' was planned with another graph: the planned graph has"
    )
    assert found["other"]["losses"]["session"] == found["alone"]["session"]
    assert len(found["other"]["losses"]["function"]) == 1


def test_a_plan_for_other_jobs_is_refused_by_name(found: dict[str, Any]) -> None:
    lacks, more = found["refused"]
    assert lacks.startswith("the plan has the job 'session': plan the jobs that are run")
    assert more.startswith("the plan does not have the job 'third'")
