"""How a function comes from its first step to an order, step by step."""

import pytest

from tfwave.distribute.progress import JUDGED_STEPS, WARM_UP_STEPS, Phase, Progress

WORKERS, TRACE = 2, 3
LATER = 10.0


def steps(progress: Progress, count: int, seconds: float = 1.0, begin: float = LATER) -> None:
    for _ in range(count):
        progress.step(begin, seconds)


@pytest.fixture
def progress() -> Progress:
    return Progress(WORKERS, TRACE)


def ordered(progress: Progress, unordered_seconds: float, ordered_seconds: float) -> Progress:
    progress.enter(Phase.MEASURING, 0)
    steps(progress, TRACE * WORKERS, unordered_seconds)
    progress.enter(Phase.ORDERED, 0)
    steps(progress, JUDGED_STEPS * WORKERS, ordered_seconds)
    return progress


def test_the_first_steps_warm_up(progress: Progress) -> None:
    steps(progress, WARM_UP_STEPS * WORKERS - 1)
    assert progress.phase is Phase.WARMING
    steps(progress, 1)
    assert progress.phase is Phase.MEASURING


def test_a_measurement_takes_its_steps_of_each_worker(progress: Progress) -> None:
    progress.enter(Phase.MEASURING, 0)
    steps(progress, TRACE * WORKERS - 1)
    assert not progress.measured
    steps(progress, 1)
    assert progress.measured


def test_after_a_loss_it_is_measured_for_longer(progress: Progress) -> None:
    progress.losses = 1
    progress.enter(Phase.MEASURING, 0)
    steps(progress, JUDGED_STEPS * WORKERS - 1)
    assert not progress.measured
    steps(progress, 1)
    assert progress.measured


def test_a_trace_takes_its_steps_of_each_worker(progress: Progress) -> None:
    progress.enter(Phase.TRACING, 0)
    steps(progress, TRACE * WORKERS - 1)
    assert not progress.traced
    steps(progress, 1)
    assert progress.traced


def test_a_trace_ends_with_many_steps_of_other_functions(progress: Progress) -> None:
    """It holds them, too, and a worker's memory is not for that."""
    for _ in range(2):
        progress.enter(Phase.TRACING, 0)
        for _ in range(10 * TRACE * WORKERS - 1):
            progress.step_beside()
        assert not progress.traced
    progress.step_beside()
    assert progress.traced
    assert not progress.has_run


def test_each_phase_counts_from_its_begin(progress: Progress) -> None:
    progress.enter(Phase.MEASURING, 0)
    steps(progress, TRACE * WORKERS)
    progress.enter(Phase.TRACING, 0)
    assert not progress.traced
    steps(progress, TRACE * WORKERS - 1)
    assert not progress.traced


@pytest.mark.parametrize("phase", [Phase.MEASURING, Phase.TRACING, Phase.ORDERED])
def test_steps_that_began_before_a_phase_do_not_count_to_it(progress: Progress, phase: Phase) -> None:
    progress.enter(phase, LATER)
    steps(progress, 1000, begin=LATER - 0.1)
    assert not any((progress.measured, progress.traced, progress.due))


def test_an_order_is_due_to_be_judged_until_that_is_settled(progress: Progress) -> None:
    ordered(progress, 2, 1)
    assert progress.due
    assert progress.gain == 2
    progress.settled = True
    assert not progress.due


def test_an_order_whose_steps_nobody_hands_off_is_overdue(progress: Progress) -> None:
    ordered(progress, 2, 1)
    assert not progress.overdue
    steps(progress, 9 * JUDGED_STEPS * WORKERS)
    assert progress.overdue


@pytest.mark.parametrize(("seconds", "loses"), [(1.0, False), (1.04, False), (1.06, True), (0.5, False)])
def test_an_order_loses_only_beyond_doubt(progress: Progress, seconds: float, loses: bool) -> None:
    assert ordered(progress, 1.0, seconds).loses is loses


def test_a_slower_median_is_not_beyond_doubt(progress: Progress) -> None:
    """Some steps are as slow without the order."""
    progress.enter(Phase.MEASURING, 0)
    steps(progress, TRACE * WORKERS - 2, 1.0)
    steps(progress, 2, 3.0)
    progress.enter(Phase.ORDERED, 0)
    steps(progress, JUDGED_STEPS * WORKERS, 2.0)
    assert progress.gain == 0.5
    assert not progress.loses


def test_one_slow_step_does_not_condemn_an_order(progress: Progress) -> None:
    ordered(progress, 1.0, 1.0)
    steps(progress, JUDGED_STEPS // 4, 50.0)
    assert not progress.loses


def test_a_second_measurement_forgets_the_first(progress: Progress) -> None:
    assert ordered(progress, 1.0, 2.0).loses
    assert not ordered(progress, 2.0, 2.0).loses
    assert progress.gain == 1
