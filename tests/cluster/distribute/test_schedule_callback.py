"""ScheduleCallback in fits of Keras 3 and tf_keras, on a job of real servers."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.job import Job, job
from tests.full import each

pytestmark = pytest.mark.tensorflow

KERAS = each(["keras", "tf_keras"], ["tf_keras"])

LOGGED = {
    f"tfwave_{name}"
    for name in (
        *("step_seconds", "efficiency", "efficiency_median", "inversions"),
        *("exact_share", "planned_share", "released", "straggler", "straggler_median"),
    )
}


@pytest.fixture(scope="module")
def servers() -> Iterator[Job]:
    with job() as started:
        yield started


@pytest.fixture(scope="module", params=KERAS)
def fitted(request: pytest.FixtureRequest, servers: Job, tmp_path_factory: Any) -> dict[str, Any]:
    directory: Path = tmp_path_factory.mktemp(request.param)
    return servers.chief("fitted", which=request.param, directory=str(directory))


def test_the_epoch_logs_carry_the_figures(fitted: dict[str, Any]) -> None:
    history = fitted["history"]
    assert set(history) > LOGGED
    assert all(seconds > 0 for seconds in history["tfwave_step_seconds"])
    assert not math.isnan(history["tfwave_efficiency"][-1])
    assert history["tfwave_exact_share"][-1] == 1
    assert history["tfwave_inversions"][-1] == 0


def test_loggers_after_it_see_them(fitted: dict[str, Any]) -> None:
    rows = fitted["csv"]
    assert [float(row["tfwave_step_seconds"]) for row in rows] == fitted["history"]["tfwave_step_seconds"]


def test_the_report_holds_events_and_plans(fitted: dict[str, Any]) -> None:
    assert fitted["plans"] == ["tac"]
    assert len(fitted["pages"]) == 1
    assert {tag.replace("/", "_") for tag in fitted["scalars"]} == LOGGED
    logged = fitted["history"]["tfwave_step_seconds"]
    assert fitted["scalars"]["tfwave/step_seconds"] == pytest.approx(logged, rel=1e-6)


def test_the_histogram_of_an_epoch_has_its_median_step(fitted: dict[str, Any]) -> None:
    (histograms,) = fitted["histograms"].values()
    assert len(histograms) == len(fitted["history"]["tfwave_step_seconds"])
    for buckets, median in zip(histograms, fitted["history"]["tfwave_step_seconds"], strict=True):
        assert buckets[0][0] <= median <= buckets[-1][1]
        assert sum(count for _, _, count in buckets) >= 1


def test_the_order_is_told_once_as_text(fitted: dict[str, Any]) -> None:
    ((tag, texts),) = fitted["text"].items()
    assert tag.startswith("tfwave/order/")
    assert [f"{tag.removeprefix('tfwave/order/')}.html"] == fitted["pages"]
    ((text,),) = texts
    assert text.startswith("policy tac; ")
    assert "| 0 | `" in text


def test_a_step_without_the_order_and_under_it_is_drawn_once(fitted: dict[str, Any]) -> None:
    ((tag, pictures),) = fitted["images"].items()
    assert [tag.replace("/timeline/", "/order/")] == [*fitted["text"]]
    ((told, real),) = pictures
    assert told == real
    assert min(told) > 100


def test_the_strategy_is_left_as_it_was(fitted: dict[str, Any]) -> None:
    assert fitted["restored"]


@pytest.mark.parametrize("which", KERAS)
def test_an_exception_leaves_the_strategy_as_it_was(servers: Job, which: str) -> None:
    found = servers.chief("failed", which=which)
    assert found["during"] == "tac"
    assert found["ordered"] == 1
    assert found["restored"]


def test_a_strategy_must_be_wrapped(servers: Job) -> None:
    assert "tfwave.distribute.wrap(strategy)" in servers.chief("unwrapped")["refused"]
