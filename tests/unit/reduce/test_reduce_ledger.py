"""Each gradient is in the sums once, with the same bits everywhere, whoever is killed, stopped or comes late."""

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from tests.full import each
from tests.unit.reduce.reduce_member import MOST_STEPS
from tfwave.reduce.service import Coordinator

SLOTS = 5
WORKERS = 4
SECONDS = 200
DEADLINE = 8.0
"""Of a stopped member: long beside what a busy machine may keep a process from running."""


class Process:
    def __init__(self, **given: Any) -> None:
        self.slot: int = given["slot"]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.unit.reduce.reduce_member", json.dumps({"slots": SLOTS, **given})],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_for(self, word: str) -> None:
        assert self._process.stdout
        assert self._process.stdout.readline().strip() == word

    def wait(self) -> int:
        return self._process.wait(SECONDS)

    def result(self) -> tuple[dict[str, Any], str]:
        """What it printed at its end, {} if nothing, and what it complained of."""
        out, err = self._process.communicate(timeout=SECONDS)
        lines = [line for line in out.splitlines() if line.startswith("{")]
        return (json.loads(lines[-1]) if lines else {}), err

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()


class Crowd:
    """Processes of one training."""

    def __init__(self, stack: ExitStack, probes: int | str, deadline: float = 60.0) -> None:
        self._stack = stack
        self._coordinator = stack.enter_context(Coordinator())
        self._rules = {"probes": probes, "deadline": deadline, "patience": 100.0, "workers": WORKERS}

    def start(self, rank: int, slot: int, **more: Any) -> Process:
        options = {"rank": rank, "coordinator": self._coordinator.address, **self._rules}
        process = Process(slot=slot, seed=slot, options=options, **more)
        self._stack.callback(process.end)
        return process

    def start_all(self, **harm: Any) -> list[Process]:
        """Rank 1 is harmed."""
        return [self.start(i, i, **(harm if i == 1 else {})) for i in range(WORKERS)]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def finish(processes: list[Process]) -> list[dict[str, Any]]:
    for process in processes:
        assert process._process.stdin
        process._process.stdin.close()
        process._process.stdin = None
    found = [process.result() for process in processes]
    for result, said in found:
        assert result, said
    return [result for result, _ in found]


def check_ledger(processes: list[Process], results: list[dict[str, Any]]) -> np.ndarray:
    """Those who lived: every gradient once. Others: none twice. And the same bits everywhere."""
    assert len({result["total"] for result in results}) == 1
    total = np.frombuffer(bytes.fromhex(results[0]["total"])).reshape(SLOTS, MOST_STEPS)
    once = np.arange(1, MOST_STEPS + 1)
    assert np.all((total == 0) | (total == once))
    for process, result in zip(processes, results, strict=True):
        assert np.array_equal(total[process.slot], np.where(once <= result["made"], once, 0))
        assert result["gave"] == result["made"]
        assert result["dropped"] == 0
    return total


@pytest.mark.parametrize("probes", [1, 2, "all"])
def test_each_gradient_is_in_the_sums_once(stack: ExitStack, probes: int | str) -> None:
    crowd = Crowd(stack, probes)
    processes = crowd.start_all()
    for process in processes:
        process.wait_for("joined")
    for process in processes:
        process.wait_for("stepped")
    results = finish(processes)
    check_ledger(processes, results)
    assert len({result["reduces"] for result in results}) == 1


@pytest.mark.parametrize(("probes", "seed"), [(2, 1), (2, 2), ("all", 3)])
def test_a_killed_member_takes_only_its_own_with_it_and_is_replaced(
    stack: ExitStack, probes: int | str, seed: int
) -> None:
    crowd = Crowd(stack, probes)
    moment = random.Random(seed).randrange(20)
    victim, *others = sorted(
        crowd.start_all(harm="SIGKILL", harm_step=moment), key=lambda process: process.slot != 1
    )
    assert victim.wait() == -signal.SIGKILL
    late = crowd.start(1, 4)
    late.wait_for("joined")
    late.wait_for("stepped")
    processes = [*others, late]
    total = check_ledger(processes, finish(processes))
    assert not total[victim.slot][moment + 200 :].any()


@pytest.mark.parametrize("probes", each([2, "all"], [2]))
def test_a_stopped_member_is_left_out_and_told_so_when_it_wakes(stack: ExitStack, probes: int | str) -> None:
    crowd = Crowd(stack, probes, DEADLINE)
    victim, *others = sorted(
        crowd.start_all(harm="SIGSTOP", harm_step=7), key=lambda process: process.slot != 1
    )
    for process in others:
        process.wait_for("joined")
    for process in others:
        process.wait_for("stepped")
    check_ledger(others, finish(others))
    os.kill(victim.pid, signal.SIGCONT)
    result, said = victim.result()
    assert not result
    assert "did not answer for 8 s" in said
