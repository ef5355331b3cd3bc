"""A training in the background of three kinds of foregrounds: each computes what it computes alone, bit by bit."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.numerics.colocate.background_job import STEPS
from tests.numerics.colocate.background_training import BACKGROUND_STEPS, KINDS
from tests.numerics.processes import said_by

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(390)]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("background") / "told.json"


@pytest.fixture(scope="module")
def found(out: Path) -> dict[str, Any]:
    return said_by("tests.numerics.colocate.background_job", str(out))


@pytest.fixture(scope="module")
def told(found: dict[str, Any], out: Path) -> dict[str, Any]:
    """By the background, if anything was left for it."""
    if found["exit_code"] is None:
        pytest.skip("others kept the cores busy all the time, and left nothing for the background")
    assert found["exit_code"] == 0
    return json.loads(out.read_text())


@pytest.mark.parametrize("kind", KINDS)
def test_a_foreground_computes_the_same(found: dict[str, Any], kind: str) -> None:
    assert found["beside"][kind] == found["alone"][kind]
    assert len(set(found["alone"][kind])) == STEPS


def test_only_the_background_goes_behind_others(found: dict[str, Any]) -> None:
    assert found["policies"] == [os.SCHED_OTHER]
    assert found["background while it runs"] == [os.SCHED_IDLE]


def test_so_do_all_the_threads_that_tensorflow_starts_in_it(told: dict[str, Any]) -> None:
    assert told["policies"] == [os.SCHED_IDLE]
    assert told["threads"] > 2


def test_the_background_computes_the_same(found: dict[str, Any], told: dict[str, Any]) -> None:
    assert told["losses"] == found["alone"]["busy"][:BACKGROUND_STEPS]


def test_its_memory_is_limited(told: dict[str, Any]) -> None:
    assert (told["pool"], told["256 MiB"]) == (True, "none")
