"""A step in a memory that it would not keep to trains what it trains where there is room."""

from typing import Any

import pytest

from tests.numerics.processes import said_in_pool
from tfwave.sizes import parse_size

pytestmark = pytest.mark.tensorflow

JOB = "tests.numerics.memory.fitting_job"


KERAS_JOB = "tests.numerics.memory.fitting_keras"


@pytest.fixture(scope="module")
def fitted() -> dict[str, Any]:
    return said_in_pool(64, JOB, "fitted")


def test_a_function_trains_the_same_in_less_memory(fitted: dict[str, Any]) -> None:
    """Batches of two shapes, and a step that fails half way."""
    plain = said_in_pool(256, JOB, "plain")
    assert plain["peak"] > parse_size("64MiB")
    same = "losses", "values", "sums", "failed"
    assert {name: fitted[name] for name in same} == {name: plain[name] for name in same}
    assert plain["failed"]
    assert fitted["names"] == [["float32[2048, 128]"], ["float32[4096, 128]"]]
    assert max(fitted["away"]) > 0


def test_a_batch_that_may_take_more_is_planned_by_itself(fitted: dict[str, Any]) -> None:
    """Other keys, more ragged values; fewer take less."""
    names, losses = fitted["kinds"]
    assert names == [
        ["{'one': float32[2, 3]}"],
        ["{'other': float32[2, 3]}"],
        ["{'ragged': ragged float32[2, None]}", "lengths up to 400, 399"],
        ["{'ragged': ragged float32[2, None]}", "lengths up to 50, 49"],
    ]
    assert losses == [6, 6, 50, 400, 30]


def test_bytes_are_moved_and_none_stay(fitted: dict[str, Any]) -> None:
    out, back = fitted["moved"]
    assert out > back > 0  # the step that failed fetched nothing
    assert fitted["left"] == [0, 0]


def test_what_does_not_fit_says_what_would_and_changes_nothing(fitted: dict[str, Any]) -> None:
    refusals = fitted["refusals"]
    assert "the step of 4096 rows: it does not fit into 8 MiB: it needs" in refusals["small"]
    assert "rows would fit, by the model" in refusals["small"]
    assert "a limit of 1,024 MiB in a pool of 64 MiB" in refusals["large"]
    assert "give a tf.function" in refusals["eager"]
    assert "a sample of 0 rows" in refusals["rows"]
    assert "the step ran as it is, since TensorFlow's optimizer is off" in refusals["optimizer"]
    assert fitted["kept"]


@pytest.mark.long
def test_a_step_that_ends_in_its_middle_leaves_nothing_and_the_next_is_as_ever() -> None:
    """An op that raises, a step that is cancelled, and a session that is closed, with tensors in the stash."""
    ends = said_in_pool(256, "tests.numerics.memory.fitting_ends")
    nothing = [0, 0]
    assert ends["function"]["ends"] == {
        "raises": ["UnknownError", nothing],
        "cancelled": ["CancelledError", nothing],
    }
    assert ends["session"]["ends"] == {
        "raises": ["UnknownError", nothing],
        "closed": ["CancelledError", nothing],
    }
    assert len(ends["held"]) == 4
    assert min(ends["held"]) > 0
    assert ends["left"] == nothing
    for job, steps in (("function", 9), ("session", 6)):
        assert ends[job]["same"]
        assert ends[job]["different"] == steps, "it trains"


@pytest.mark.long
def test_a_keras_model_trains_the_same_in_less_memory() -> None:
    """Adam, a metric, dropout, and a last batch of another shape; then what ends a `fit`, and what is refused."""
    plain, fitted = said_in_pool(256, KERAS_JOB, "plain"), said_in_pool(72, KERAS_JOB, "fitted")
    assert plain["peak"] > parse_size("72MiB") > fitted["peak"]
    same = "logs", "sums", "weights"
    assert {name: fitted[name] for name in same} == {name: plain[name] for name in same}
    assert len(fitted["away"]) == 2
    assert max(fitted["away"]) > 0
    assert (fitted["moved"] > 0, fitted["left"]) == (True, 0)
    _check_events(fitted)
    assert "KeyboardInterrupt" in fitted["interrupted"]
    assert fitted["restored"]
    several, eager, large = fitted["refusals"]
    assert "compile(steps_per_execution=1)" in several
    assert "compile(run_eagerly=False)" in eager
    assert "the step of 512 rows: it does not fit into 2 MiB" in large


def _check_events(fitted: dict[str, Any]) -> None:
    """Both plans with what they hold as pictures, and of each of three epochs what was moved: all that ever was."""
    names = [page.removesuffix(".html") for page in fitted["pages"]]
    assert names == ["fitted_1000_rows", "fitted_4096_rows"]
    events = fitted["events"]
    assert sorted(events["text"]) == [f"tfwave/plan/{name}" for name in names]
    assert sorted(events["images"]) == [f"tfwave/memory/{name}" for name in names]
    assert all(told == real for pictures in events["images"].values() for told, real in pictures)
    moved = events["scalars"]["tfwave/stash_back_bytes"]
    assert len(moved) == 3
    assert sum(moved) == pytest.approx(fitted["moved"], rel=1e-6)
