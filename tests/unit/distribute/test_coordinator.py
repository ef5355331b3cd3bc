"""What a watcher of a coordinator is told, and when."""

import time
from typing import Any

import pytest

from tests.unit.coordinated import Closure, Coordinator, Function
from tfwave.errors import EnvironmentUnsupported
from tfwave.runtime.coordinator import StepRun, watched


class Notes:
    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self.functions: list[tuple[Function, int]] = []
        self.steps: list[StepRun] = []
        self.recoveries: list[tuple[int, int]] = []

    def on_function(self, concrete: Any) -> None:
        self.functions.append((concrete, len(self._coordinator.queue.waiting)))

    def on_step(self, step: StepRun) -> None:
        self.steps.append(step)

    def on_recovery(self, worker: int) -> None:
        self.recoveries.append((worker, self._coordinator.workers[worker].recoveries))


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator(2)


@pytest.fixture
def notes(coordinator: Coordinator) -> Notes:
    return Notes(coordinator)


def test_each_function_is_told_once_before_it_waits(coordinator: Coordinator, notes: Notes) -> None:
    first, second = Function("first"), Function("second")
    with watched(coordinator, notes):
        for function in (first, second, first, None):
            coordinator.queue.put(Closure(function), tag=1)
    assert notes.functions == [(first, 0), (second, 1)]
    assert len(coordinator.queue.waiting) == 4


def test_a_step_is_told_of_its_worker_and_time(coordinator: Coordinator, notes: Notes) -> None:
    function = Function("f")
    begin = time.perf_counter()
    with watched(coordinator, notes):
        coordinator.step(function)
        coordinator.step(None)
    assert [(step.worker, step.concrete) for step in notes.steps] == [(0, function), (1, function)]
    assert coordinator.queue.finished == 4
    for step in notes.steps:
        assert begin <= step.begin <= step.begin + step.seconds <= time.perf_counter()


def test_a_step_that_failed_counts_when_it_is_done_again(coordinator: Coordinator, notes: Notes) -> None:
    function = Function("f")
    with watched(coordinator, notes):
        coordinator.step(None)  # another one is finished before
        coordinator.queue.put(Closure(function, fails=1))
        coordinator.workers[1].work()
        assert notes.steps == []
        assert notes.recoveries == [(1, 0)]  # before TensorFlow makes the worker's resources again
        coordinator.workers[0].work()
    assert [step.worker for step in notes.steps] == [0]
    assert coordinator.workers[1].recoveries == 1


def test_afterwards_all_is_as_it_was(coordinator: Coordinator, notes: Notes) -> None:
    before = [vars(part).copy() for part in (coordinator.queue, *coordinator.workers)]
    with watched(coordinator, notes):
        assert [vars(part) for part in (coordinator.queue, *coordinator.workers)] != before
    assert [vars(part) for part in (coordinator.queue, *coordinator.workers)] == before
    coordinator.step(Function("f"))
    assert notes.functions == notes.steps == []


def test_a_coordinator_of_another_make_is_refused_and_left_alone(
    coordinator: Coordinator, notes: Notes
) -> None:
    class Other:
        worker_index = 2

    coordinator._cluster.workers.append(Other())
    before = [vars(part).copy() for part in (coordinator.queue, *coordinator.workers)]
    with pytest.raises(EnvironmentUnsupported, match="cannot be watched"), watched(coordinator, notes):
        pytest.fail("it is watched")
    assert [vars(part) for part in (coordinator.queue, *coordinator.workers)] == before
