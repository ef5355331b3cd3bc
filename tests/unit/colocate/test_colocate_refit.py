"""Whether a job that has no room is made to fit, told from what was captured of it."""

import tarfile
from pathlib import Path

import pytest

from tests.golden.kept import INPUTS
from tfwave.bundle.bundle import Bundle, load_bundle
from tfwave.colocate.job import Job
from tfwave.colocate.refit import refit_plan
from tfwave.errors import PlanError
from tfwave.offload import step
from tfwave.offload.captured import captured_step
from tfwave.offload.threads import Lanes

TWICE = 1.0


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    out: Path = tmp_path_factory.mktemp("traced")
    with tarfile.open(INPUTS / "resnet_alone.tar.gz") as archive:
        archive.extractall(out, filter="data")
    return load_bundle(out / "resnet_alone")


def job(most: float) -> Job:
    return Job("large", None, [], fit_slowed_at_most=most)


def test_a_step_is_planned_into_what_is_left(captured: Bundle) -> None:
    left = round(0.8 * captured_step(captured).found.peak)
    memory = refit_plan(job(TWICE), captured, left).memory
    assert memory is not None
    assert memory.tensors
    assert 0.9 * left < memory.peak_bytes <= left


def test_a_step_that_would_come_too_slow_is_refused(
    captured: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By slow copies, into as little as it can hold."""
    monkeypatch.setattr(step, "lanes_of", lambda device: Lanes(2, 1e6))
    with pytest.raises(
        PlanError, match=r"its step comes slower by \d+%, over its fit_slowed_at_most of 100%"
    ):
        refit_plan(job(TWICE), captured, 0)
