"""Tables that lie on the workers, in real processes: bits, and what is left when one dies."""

import json
import signal

import pytest

from tests.cluster.speaker import spawn
from tests.ports import free_ports

SECONDS = 500
WORKER = "tests.cluster.table_worker"


def said(scenario: str, workers: int) -> list[tuple[int, dict[str, bool]]]:
    """By rank: how it ended, and what it found."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(workers)]
    tasks = [spawn(WORKER, scenario, str(rank), *addresses, stderr=True) for rank in range(workers)]
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
def test_a_table_on_workers_has_the_bits_of_one_in_one_process(workers: int) -> None:
    """Uneven shards, empty batches, ids repeated in and among workers, two optimizers."""
    for code, found in said("same_bits", workers):
        assert code == 0
        assert len(found) == 7
        assert all(found.values()), found


@pytest.mark.timeout(SECONDS + 60)
def test_a_worker_that_dies_is_named_and_the_others_form_a_group_anew() -> None:
    *others, (code, _) = said("one_dies", 3)
    assert code == -signal.SIGKILL
    assert others == [(0, {"while it waits": True, "later": True, "a new group": True})] * 2
