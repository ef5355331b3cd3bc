"""Jobs that come, change and go in one limited pool: each computes what it computes alone, bit by bit."""

from typing import Any

import pytest

from tests.numerics.processes import said_by, said_in_pool

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return said_in_pool(128, "tests.numerics.colocate.pooled")


def test_jobs_that_come_while_others_run_compute_the_same(found: dict[str, Any]) -> None:
    breathing = found["breathing"]
    assert breathing["equal"] == dict.fromkeys(breathing["all"], True)
    unended = {"huge", "cancelled"}
    assert {name for name, steps in breathing["steps"].items() if steps < breathing["all"][name]} == unended
    assert set(breathing["errors"]) == unended
    assert (breathing["released"], breathing["left"]) == (0, [])


def test_a_newcomer_without_room_says_so_and_leaves_the_others_alone(found: dict[str, Any]) -> None:
    breathing = found["breathing"]
    assert (breathing["huge"], breathing["steps"]["huge"]) == ("PlanError", 4)
    assert "the job 'huge' alone peaks at" in breathing["errors"]["huge"]
    assert breathing["planned"].count("huge") == 1  # another of the name that came later


def test_a_job_that_is_cancelled_says_after_how_many_steps(found: dict[str, Any]) -> None:
    breathing = found["breathing"]
    assert breathing["errors"]["cancelled"] == f"cancelled after {breathing['steps']['cancelled']} steps"


@pytest.mark.long
def test_while_a_step_of_an_unknown_shape_runs_no_other_does() -> None:
    """So that it has all that jobs do not hold between their steps; those that come after it run beside others."""
    grown = said_in_pool(128, "tests.numerics.colocate.pooled", "unknown")
    assert (grown["error"], grown["equal"]) == ("None", True)
    assert grown["met"] == grown["alone"]


def test_a_step_that_waits_stays_what_it_was_when_the_job_is_changed(found: dict[str, Any]) -> None:
    assert found["changed within"] == [1.0, 2.0]


def test_the_handle_of_a_job_that_ended_keeps_nothing_in_the_pool(found: dict[str, Any]) -> None:
    assert found["held by handles"] == [0, 0]


def test_a_small_job_of_a_higher_priority_waits_for_memory_only(found: dict[str, Any]) -> None:
    """Planned in turn beside a training, with room for both; of equal priority, it waits for the other's steps."""
    first, equal = found["priority 5"], found["priority 0"]
    assert first["p95"] < first["step"]
    assert equal["p95"] > equal["step"]
    assert (first["released"], equal["released"]) == (0, 0)


def test_a_job_in_time_has_its_memory_kept(found: dict[str, Any]) -> None:
    in_time = found["in time"]
    assert in_time["waited"] == 0.0
    assert 0.0 < in_time["p95"] < in_time["seconds"]
    assert (in_time["bits"], in_time["losses"]) == (1, True)
    assert in_time["replayed"] == [8, 40]


def test_a_job_that_cannot_be_in_time_says_why_and_leaves_the_others_alone(found: dict[str, Any]) -> None:
    errors = found["in time"]["errors"]
    assert set(errors) == {"slow", "wide"}
    assert "over its latency_at_most of 1e-09 s: allow more" in errors["slow"]
    assert "for it, which leaves the jobs that run too little of" in errors["wide"]


@pytest.mark.long
def test_jobs_come_change_go_and_fail_at_random() -> None:
    """The process itself checks that no step runs out of memory, and that each computes what it does alone."""
    soaked = said_by("tools.bench.memory.pool_soak", "--steps", "120")
    assert soaked["bit_equal"]
    assert soaked["jobs"] > 3
    assert soaked["let_through"] == 0
