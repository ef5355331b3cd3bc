"""Tables that lie on the workers, in real processes: bits, and what is left when one dies."""

import json
import signal
from pathlib import Path

import pytest

from tests.cluster.speaker import spawn
from tests.ports import free_ports

SECONDS = 500
WORKER = "tests.cluster.embedding.table_worker"


def said(scenario: str, workers: int, folder: Path) -> list[tuple[int, dict[str, bool]]]:
    """By rank: how it ended, and what it found."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(workers)]
    tasks = [
        spawn(WORKER, scenario, str(folder), str(rank), *addresses, stderr=True) for rank in range(workers)
    ]
    try:
        words = [task.stdout.readline() for task in tasks]
        ended = [task.communicate(timeout=SECONDS) for task in tasks]
    finally:
        for task in tasks:
            task.kill()
    codes = [task.wait() for task in tasks]
    assert {code for code in codes if code} <= {-signal.SIGKILL}, [errors[-2000:] for _, errors in ended]
    return [(code, json.loads(one) if one else {}) for code, one in zip(codes, words, strict=True)]


@pytest.mark.timeout(SECONDS + 60)
@pytest.mark.parametrize("workers", [2, 4])
def test_a_table_on_workers_has_the_bits_of_one_in_one_process(workers: int, tmp_path: Path) -> None:
    """Uneven shards, empty batches, ids repeated in and among workers, three optimizers."""
    for code, found in said("same_bits", workers, tmp_path):
        assert code == 0
        assert len(found) == 10
        assert all(found.values()), found


@pytest.mark.timeout(SECONDS + 60)
def test_a_worker_that_dies_is_named_and_the_others_form_a_group_anew(tmp_path: Path) -> None:
    *others, (code, _) = said("one_dies", 3, tmp_path)
    assert code == -signal.SIGKILL
    assert others == [(0, {"while it waits": True, "later": True, "a new group": True})] * 2


@pytest.mark.timeout(SECONDS + 60)
def test_two_of_three_workers_go_on_from_a_checkpoint_and_no_gradient_is_lost_or_applied_twice(
    tmp_path: Path,
) -> None:
    """One is killed in mid-step; the other two hold all rows, and take its batches."""
    *others, (code, _) = said("goes_on_with_fewer", 3, tmp_path)
    assert code == -signal.SIGKILL
    assert others == [(0, {"saved": True, "named": True, "none lost, none twice": True})] * 2


@pytest.mark.timeout(SECONDS + 60)
def test_ids_without_an_end_get_rows_of_the_workers_that_own_them(tmp_path: Path) -> None:
    """Each row counts its id; some are evicted; a checkpoint goes on to the same bits, and not with other rows."""
    for code, found in said("any_ids", 2, tmp_path):
        assert code == 0
        assert len(found) == 8
        assert all(found.values()), found


@pytest.mark.timeout(SECONDS + 60)
def test_a_worker_that_is_done_takes_nothing_from_those_that_still_wait_for_each_other(
    tmp_path: Path,
) -> None:
    assert said("one_is_done_first", 3, tmp_path) == [(0, {"all came": True})] * 3
