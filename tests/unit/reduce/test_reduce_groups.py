"""Groups of workers: what each does reaches the others once, all end with the same bits, nobody waits for ever."""

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from tests.ports import free_ports
from tests.unit.reduce.group_member import MOST_STEPS
from tfwave.errors import EnforcerError
from tfwave.reduce.deputy import Deputy
from tfwave.reduce.groups import Groups, Progress, groups_of, total
from tfwave.reduce.meeting import Meeting
from tfwave.reduce.meeting_place import LOOK_SECONDS, MeetingPlace
from tfwave.reduce.place import Place
from tfwave.reduce.service import Coordinator
from tfwave.stragglers.meetings import BETWEEN

SECONDS = 200
FAST, SLOW = 0.002, 0.02


class Training:
    """Workers in groups, each a process."""

    def __init__(self, stack: ExitStack, groups: Sequence[Sequence[int]], patience: float = 100.0) -> None:
        self._stack, self._groups = stack, groups
        workers = sum(map(len, groups))
        self._addresses = [f"127.0.0.1:{port}" for port in free_ports(workers)]
        self._options = {"deadline": 60.0, "patience": patience}

    def start(self, rank: int, **more: Any) -> subprocess.Popen[str]:
        given = {"workers": self._addresses, "groups": self._groups, "rank": rank, "options": self._options}
        step_seconds = FAST if rank in self._groups[0] else SLOW
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.unit.reduce.group_member"),
                json.dumps({"step_seconds": step_seconds, **given, **more}),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._stack.callback(_end, process)
        return process


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def wait_for(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdout
    assert process.stdout.readline().strip() == word


def finish(processes: Sequence[subprocess.Popen[str]]) -> list[dict[str, Any]]:
    """Have them make no more steps; what they end with."""
    for process in processes:
        assert process.stdin
        process.stdin.close()
        process.stdin = None
    ended = [process.communicate(timeout=SECONDS) for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), [err for _, err in ended]
    return [json.loads(out.splitlines()[-1]) for out, _ in ended]


def ledger(results: Sequence[dict[str, Any]]) -> np.ndarray:
    """The same of all; a row for each worker."""
    assert len({result["total"] for result in results}) == 1
    return np.frombuffer(bytes.fromhex(results[0]["total"])).reshape(-1, MOST_STEPS)


ONCE = np.arange(1, MOST_STEPS + 1)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_each_gradient_of_all_groups_counts_once(stack: ExitStack) -> None:
    training = Training(stack, [[0, 3], [1, 2]])
    processes = [training.start(rank, own=True) for rank in range(4)]
    for word in ("joined", "stepped"):
        for process in processes:
            wait_for(process, word)
    results = finish(processes)
    for row, result in zip(ledger(results), results, strict=True):
        assert np.array_equal(row, np.where(result["made"] >= ONCE, ONCE, 0))
        assert result["met"] >= 2
    assert results[0]["own"] == results[3]["own"] != results[1]["own"] == results[2]["own"]


def test_a_worker_that_comes_late_to_its_group_ends_with_the_bits_of_all(stack: ExitStack) -> None:
    training = Training(stack, [[0], [1, 2]])
    killed = training.start(2, kill_step=10)
    others = [training.start(rank) for rank in (0, 1)]
    assert killed.wait(SECONDS) == -signal.SIGKILL
    late = training.start(2)
    wait_for(late, "joined")
    wait_for(late, "stepped")
    results = finish([*others, late])
    rows = ledger(results)
    for row, result in zip(rows[:2], results, strict=False):
        assert np.array_equal(row, np.where(result["made"] >= ONCE, ONCE, 0))


def test_a_group_that_is_lost_is_not_waited_for(stack: ExitStack) -> None:
    """It ends with its first worker; what it did until it last met is in the weights of the others."""
    training = Training(stack, [[0, 1], [2, 3]], patience=3.0)
    others = [training.start(rank) for rank in (0, 1)]
    lost, left = training.start(2, kill_step=40), training.start(3)
    assert lost.wait(SECONDS) == -signal.SIGKILL
    _, said = left.communicate(timeout=SECONDS)
    assert left.returncode == 1
    assert "run this training again" in said
    results = finish(others)
    rows = ledger(results)
    for row, result in zip(rows[:2], results, strict=False):
        assert np.array_equal(row, np.where(result["made"] >= ONCE, ONCE, 0))
    assert 0 < np.count_nonzero(rows[2]) <= 40


def test_without_worker_0_groups_cannot_meet(stack: ExitStack) -> None:
    training = Training(stack, [[0], [1]], patience=5.0)
    first, second = training.start(0, kill_step=10), training.start(1)
    assert first.wait(SECONDS) == -signal.SIGKILL
    _, said = second.communicate(timeout=SECONDS)
    assert second.returncode == 1
    assert "groups cannot meet at worker 0, 127.0.0.1:" in said
    assert "run this training again" in said
    assert "Traceback" not in said


class Places:
    """Where two groups meet, in this process."""

    def __init__(self, stack: ExitStack, groups: Groups = ((0,), (1,))) -> None:
        self._stack = stack
        self.place = MeetingPlace(groups, SECONDS, SECONDS)
        self._coordinator = stack.enter_context(Coordinator(place=self.place, once=True))
        stack.callback(self.place.close)

    def meeting(self, rank: int, layout: str = "same", patience: float = 60.0) -> Meeting:
        made = Meeting(self._coordinator.address, None, patience, rank, layout, 3, np.float32)
        self._stack.callback(made.close)
        return made


def array(*values: float) -> Any:
    return np.array(values, np.float32)


def test_what_a_group_did_replaces_what_it_said_before(stack: ExitStack) -> None:
    places = Places(stack)
    first, second = places.meeting(0), places.meeting(1)
    assert first.begin(b"state") is None
    assert second.begin(b"") == b"state"
    assert first.visit(4, array(1, 2, 3)).tolist() == [0, 0, 0]
    assert second.visit(4, array(5, 5, 5)).tolist() == [1, 2, 3]
    first.visit(8, array(2, 4, 6))
    first.visit(4, array(9, 9, 9))  # late: of a deputy that was slow
    assert second.visit(8, array(6, 6, 6)).tolist() == [2, 4, 6]
    with ThreadPoolExecutor() as threads:
        ended = threads.submit(first.end, 9, array(3, 4, 6), 1)
        assert second.end(8, array(6, 6, 6), 1).tolist() == ended.result(SECONDS).tolist() == [9, 10, 12]


def test_other_models_are_refused_where_groups_meet(stack: ExitStack) -> None:
    places = Places(stack)
    places.meeting(0).begin(b"state")
    with pytest.raises(EnforcerError, match="worker 1 has another model, optimizer or groups than worker 0"):
        places.meeting(1, "other").begin(b"")
    with pytest.raises(EnforcerError, match="worker 1 tells of 2 numbers, and 3 are trained"):
        places.meeting(1).visit(4, array(1, 2))
    with pytest.raises(EnforcerError, match="no worker of these groups"):
        places.meeting(2).begin(b"")


def test_who_waits_is_told_that_worker_0_has_left(stack: ExitStack) -> None:
    places = Places(stack)
    with ThreadPoolExecutor() as threads:
        waits = threads.submit(places.meeting(1, patience=1.0).begin, b"")
        places.place.close()
        with pytest.raises(EnforcerError, match="worker 0 has left"):
            waits.result(SECONDS)


def test_a_deputy_goes_every_so_many_reduces_and_its_group_waits_for_it_as_many() -> None:
    """What it brings has a number, by which the group tells that it is new."""
    may_answer, came_back = threading.Event(), threading.Event()

    def visit(version: int, own: Any) -> Any:
        assert may_answer.wait(SECONDS)
        return own + version

    deputy = Deputy(visit, came_back.set, pytest.fail)
    assert [deputy.is_due(version) for version in (0, BETWEEN - 1, BETWEEN)] == [False, False, True]
    deputy.go(BETWEEN, array(1))
    assert not deputy.is_due(2 * BETWEEN)
    assert [deputy.is_late(version) for version in (2 * BETWEEN - 1, 2 * BETWEEN)] == [False, True]
    may_answer.set()
    assert came_back.wait(SECONDS)
    assert (deputy.visit, deputy.brought.tolist()) == (1, [BETWEEN + 1])
    assert not deputy.is_late(2 * BETWEEN)
    assert not deputy.is_due(2 * BETWEEN)
    deputy.settle()
    assert deputy.is_due(2 * BETWEEN)


def test_worker_0_stays_until_all_have_what_all_did(stack: ExitStack) -> None:
    places = Places(stack, ((0,), (1, 2)))
    first, *others = [places.meeting(rank) for rank in range(3)]
    first.begin(b"state")
    nothing = array(0, 0, 0)
    with ThreadPoolExecutor() as threads:
        ended = [threads.submit(one.end, 0, nothing, left) for one, left in ((first, 1), (others[0], 2))]
        for one in ended:
            one.result(SECONDS)
        waits = threads.submit(places.place.wait)
        with pytest.raises(TimeoutError):
            waits.result(2 * LOOK_SECONDS)
        others[1].end(0, nothing, 2)
        waits.result(SECONDS)


def test_who_begins_anew_waits_for_the_end_of_the_training_before(stack: ExitStack) -> None:
    """The place where that ends would give what it began with."""
    places = Places(stack)
    first, second = places.meeting(0), places.meeting(1)
    first.begin(b"old")
    second.begin(b"")
    with ThreadPoolExecutor() as threads:
        ended = threads.submit(second.end, 0, array(0, 0, 0), 1)
        while 1 not in places.place._left:
            time.sleep(0.01)
        begun = threads.submit(places.meeting(1, patience=1.0).begin, b"")
        with pytest.raises(EnforcerError, match="this training is at its end"):
            begun.result(SECONDS)
        first.end(0, array(0, 0, 0), 1)
        ended.result(SECONDS)


@pytest.mark.parametrize(
    ("groups", "says"),
    [
        ([[0, 1], [1, 2]], "each of 3 workers once"),
        ([[0], [1]], "each of 3 workers once"),
        ([[0, 1, 2], []], "each of 3 workers once"),
        ([[0, 1, 2]], "leave groups out"),
    ],
)
def test_groups_that_cannot_be_are_refused(groups: list[list[int]], says: str) -> None:
    with pytest.raises(EnforcerError, match=says):
        groups_of(groups, 3)


def test_a_worker_reduces_at_the_first_one_of_its_group() -> None:
    addresses = [f"127.0.0.1:{port}" for port in range(7000, 7004)]
    places = [Place.given(addresses, rank).grouped([[3, 1], [2, 0]]) for rank in range(4)]
    assert [place.group for place in places] == [(0, 2), (1, 3), (0, 2), (1, 3)]
    assert [place.is_coordinator for place in places] == [True, True, False, False]
    assert [place.options().coordinator for place in places] == [addresses[k] for k in (0, 1, 0, 1)]
    assert [place.options().workers for place in places] == [2] * 4


def test_weights_are_the_sum_of_what_all_did() -> None:
    progress = Progress(array(1, 1), array(1, 1))
    weights = array(3, 0)
    assert progress.own(weights).tolist() == [2, -1]
    weights = weights + progress.step_to(array(10, 20))
    assert weights.tolist() == [13, 20]
    assert progress.own(weights).tolist() == [2, -1]
    weights = weights + progress.step_to(array(11, 20))
    assert weights.tolist() == [14, 20]
    assert progress.ended(array(13, 19)).tolist() == weights.tolist()
    assert total([array(1, 2), array(3, 4)]).tolist() == [4, 6]
