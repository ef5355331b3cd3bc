"""Jobs of a pool that go on from a checkpoint: each computes what it would have without the break, bit by bit."""

import json
import signal
from typing import Any

import pytest

from tests.numerics.processes import printed_in_pool, said_in_pool

pytestmark = [pytest.mark.tensorflow, pytest.mark.long, pytest.mark.timeout(300)]

JOBS = {"function", "keras", "session"}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The first process is killed while it saves."""
    directory = tmp_path_factory.mktemp("pool") / "run"
    first = printed_in_pool(
        128, "tests.numerics.colocate.resumed", "save", str(directory), ends=-signal.SIGKILL
    )
    left = [path.name for path in directory.glob(".save-*")]
    said = said_in_pool(128, "tests.numerics.colocate.resumed", "resume", str(directory))
    return json.loads(first) | {"left": left, **said}


def test_jobs_go_on_behind_the_last_save_that_was_whole(found: dict[str, Any]) -> None:
    """That in which the process was killed, after they had gone on, is none."""
    last = found["saves"][-1]
    assert set(last) == JOBS
    assert all(found["then"][name] > last[name] for name in JOBS)
    assert len(found["left"]) == 1
    assert {name: found["resumed"][name] for name in JOBS} == last


def test_they_compute_what_they_would_have_without_the_break(found: dict[str, Any]) -> None:
    assert found["errors"] == {}
    assert found["steps"] == {**dict.fromkeys(JOBS, found["all"]), "short": 6, "new": 6}
    assert found["equal"] == dict.fromkeys(found["steps"], True)
    assert found["variables"]


def test_a_job_that_had_ended_has_its_variables_and_one_that_is_new_begins(found: dict[str, Any]) -> None:
    assert (found["resumed"]["short"], found["made"]["short"]) == (6, 0)
    assert (found["resumed"]["new"], found["made"]["new"]) == (0, 6)


def test_only_the_files_of_the_last_save_of_each_job_stay(found: dict[str, Any]) -> None:
    assert found["folders"] == found["named"]


def test_a_job_that_is_interrupted_is_saved_with_its_last_step(found: dict[str, Any]) -> None:
    made, *saved = found["interrupted"]
    assert made >= 6
    assert saved == [made, made]


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (
            "limit",
            "pool.json' is of a pool of 100 MiB, and this one has 50 MiB: give it the limit 104857600, or",
        ),
        ("none", "CheckpointError: the pool's directory has a job 'keras', and this one has no checkpoint"),
        ("number", "EnforcerError: the checkpoint of the job 'k' is 7: give a tf.train.Checkpoint"),
        ("no saver", "give a tf.compat.v1.train.Saver"),
        ("function", "shape (256, 256) when attempting to restore variable with shape (256, 2)"),
        ("short", "cannot be read: Unresolved object in checkpoint (root).count"),
        ("new", "Checksum does not match"),
        ("full", "PlanError: the checkpoint of the job 'session' takes 3.0 MiB, and the pool has"),
        ("nowhere", "the pool has no directory to save in: give Pool(checkpoints=...)"),
    ],
)
def test_what_is_of_another_job_or_pool_is_refused(case: str, words: str, found: dict[str, Any]) -> None:
    assert words in found["refused"][case]
    if case in ("function", "short", "new"):
        assert found["refused"][case].startswith(f"CheckpointError: the job '{case}' does not go on: ")
        assert found["refused"][case].endswith("; 0 steps")
