"""A background among the jobs of a pool: its threads are the kernel's last choice, all compute the same."""

import os
from typing import Any

import pytest

from tests.numerics.processes import said_in_pool
from tfwave.runtime.lowered import OWN_THREADS

pytestmark = [pytest.mark.tensorflow, pytest.mark.long]


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return said_in_pool(128, "tests.numerics.colocate.lowered_jobs", **{OWN_THREADS: "1"})


def test_both_compute_the_same_to_their_end(found: dict[str, Any]) -> None:
    assert found["errors"] == ["None", "None"]
    assert found["steps"] == [60, 12]
    assert found["equal"] == [True, True]
    assert found["left"] == []


def test_the_ops_of_the_background_run_in_lowered_threads(found: dict[str, Any]) -> None:
    assert found["policies"] == [os.SCHED_IDLE]
    assert found["computed"]["lowered"] > 2 * found["computed"]["others"]


def test_what_it_was_to_others_is_told_of_the_background_only(found: dict[str, Any]) -> None:
    assert found["front"] == [None, 0]


def test_a_background_whose_threads_are_others_too_is_refused(found: dict[str, Any]) -> None:
    assert "the job 'functions' is a background" in found["refused"]
    assert "tfwave.colocate.background_session" in found["refused"]
    shared = said_in_pool(128, "tests.numerics.colocate.lowered_jobs", "shared")
    assert "own_threads=True" in shared["error"]
