"""A step that is made to fit keeps its promises in waves, and beside other jobs in one pool."""

from typing import Any

import pytest

from tests.numerics.processes import said_in_pool

pytestmark = [pytest.mark.tensorflow, pytest.mark.long]


@pytest.fixture(scope="module")
def waves() -> dict[str, Any]:
    return said_in_pool(256, "tests.numerics.memory.fitted_waves")


@pytest.mark.parametrize("when", ["before", "after"])
def test_waves_compute_the_same_whether_made_to_fit_before_or_after(when: str, waves: dict[str, Any]) -> None:
    alone, fitted = waves["alone"], waves[when]
    assert len(set(alone["losses"])) > len(alone["losses"]) // 2, "both waves train"
    assert (fitted["losses"], fitted["values"]) == (alone["losses"], alone["values"])
    assert waves["moved"] > 0
    assert waves["left"] == [0, 0]


def test_each_of_two_waves_holds_what_its_plan_promised(waves: dict[str, Any]) -> None:
    assert waves["before"]["peak"] <= waves["promised"]
    assert waves["before"]["peak"] < waves["alone"]["peak"]


def test_waves_that_are_made_to_fit_keep_to_the_limit(waves: dict[str, Any]) -> None:
    assert waves["after"]["peak"] <= waves["limit"] < waves["alone"]["peak"]


def test_what_waves_copy_is_what_the_library_registers_and_all_is_undone(waves: dict[str, Any]) -> None:
    assert waves["known"]
    assert waves["undone"]


@pytest.fixture(scope="module")
def jobs() -> dict[str, Any]:
    return said_in_pool(128, "tests.numerics.memory.fitted_colocated", "24")


def test_a_job_without_room_ends_unless_it_may_be_made_to_fit(jobs: dict[str, Any]) -> None:
    refused, fitted = jobs["refused"], jobs["fitted"]
    assert (refused["steps"], refused["moved"]) == ({"large": 4, "small": 12}, 0)
    assert "the job 'large' alone peaks at" in refused["errors"]["large"]
    assert fitted["steps"] == {"large": 12, "small": 12}
    assert fitted["errors"] == {"large": "", "small": ""}


def test_a_job_that_is_made_to_fit_computes_the_same_within_the_limit(jobs: dict[str, Any]) -> None:
    fitted = jobs["fitted"]
    assert fitted["losses"] == jobs["alone"]
    assert len(set(fitted["losses"]["large"])) == 12, "it trains"
    assert fitted["moved"] > 0
    assert jobs["left"] == 0
    assert fitted["peak"] <= fitted["limit"]
