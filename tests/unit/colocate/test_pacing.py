"""When a background is paused, from steps of given lengths."""

import random
from collections.abc import Callable

import pytest

from tfwave.colocate.pacing import (
    FIRST_STEPS,
    JUDGED_STEPS,
    LEAST_HELD_STEPS,
    MOST_HELD_STEPS,
    PAUSED_STEPS,
    RUNNING_STEPS,
    SETTLE_STEPS,
    Pacing,
    is_over,
)
from tfwave.errors import PlanError

ALONE = 0.01
CYCLE = 2 * SETTLE_STEPS + PAUSED_STEPS + RUNNING_STEPS


def noted(pacing: Pacing, steps: int, seconds: Callable[[bool], float]) -> list[bool]:
    """In which of the steps it ran."""
    ran: list[bool] = []
    for _ in range(steps):
        ran.append(pacing.runs)
        pacing.note(seconds(pacing.runs))
    return ran


def slowed(by: float) -> Callable[[bool], float]:
    return lambda runs: ALONE * by if runs else ALONE


def stretches(ran: list[bool], of: bool) -> list[int]:
    """How many steps on end."""
    text = "".join("#" if runs is of else " " for runs in ran)
    return [len(each) for each in text.split()]


def test_it_is_paused_for_a_few_steps_of_many() -> None:
    ran = noted(Pacing(None), FIRST_STEPS - SETTLE_STEPS + 2 * CYCLE, slowed(3.0))
    assert stretches(ran, False) == [PAUSED_STEPS + FIRST_STEPS, PAUSED_STEPS + SETTLE_STEPS]
    assert stretches(ran, True) == [RUNNING_STEPS + SETTLE_STEPS] * 2


def test_first_steps_tell_nothing() -> None:
    """They are slow: what is compared with them would seem fast."""
    pacing = Pacing(1.05)
    noted(pacing, FIRST_STEPS, lambda _: 1.0)
    noted(pacing, CYCLE, slowed(1.04))
    assert pacing.slowdown == pytest.approx(1.04)


@pytest.mark.parametrize("at_most", [None, 1.5, 1.31])
def test_the_slowdown_is_measured_whatever_is_allowed(at_most: float | None) -> None:
    pacing = Pacing(at_most)
    noted(pacing, 2 * CYCLE, slowed(1.3))
    assert pacing.slowdown == pytest.approx(1.3)
    assert pacing.held == 0


def test_too_few_steps_tell_nothing() -> None:
    pacing = Pacing(1.05)
    assert pacing.slowdown is None
    noted(pacing, FIRST_STEPS + PAUSED_STEPS + SETTLE_STEPS + JUDGED_STEPS - 1, slowed(9.0))
    assert pacing.slowdown is None
    assert pacing.runs
    noted(pacing, 1, slowed(9.0))
    assert pacing.slowdown == pytest.approx(9.0)
    assert not pacing.runs


def test_one_that_slows_too_much_is_held_twice_as_long_each_time() -> None:
    pacing = Pacing(1.05)
    ran = noted(pacing, 8 * MOST_HELD_STEPS, slowed(1.2))
    held = [steps - SETTLE_STEPS for steps in stretches(ran, False)[1:]]
    assert held[:6] == [LEAST_HELD_STEPS * 2**n for n in range(5)] + [MOST_HELD_STEPS]
    assert set(stretches(ran, True)) == {SETTLE_STEPS + JUDGED_STEPS}
    assert pacing.held == len(held)
    assert pacing.slowdown == pytest.approx(1.2)


def test_one_that_slows_no_more_is_let_go_on_and_forgiven() -> None:
    pacing = Pacing(1.05)
    noted(pacing, 4 * LEAST_HELD_STEPS, slowed(2.0))
    held = pacing.held
    assert held >= 2
    assert sum(noted(pacing, 4 * MOST_HELD_STEPS, slowed(1.0))) > 2 * RUNNING_STEPS
    assert pacing.held == held
    while not pacing.runs:
        noted(pacing, 1, slowed(1.0))
    ran = noted(pacing, CYCLE + LEAST_HELD_STEPS, slowed(2.0))
    assert LEAST_HELD_STEPS + SETTLE_STEPS in stretches(ran, False)


def test_a_foreground_whose_own_steps_come_to_take_longer_is_not_put_down_to_it_for_good() -> None:
    pacing, number = Pacing(1.05), 0

    def seconds(_: bool) -> float:
        nonlocal number
        number += 1
        return ALONE if number < CYCLE // 2 else 2 * ALONE

    noted(pacing, 4 * CYCLE, seconds)
    assert pacing.held <= 1
    assert sum(noted(pacing, 2 * CYCLE, seconds)) > CYCLE


def test_steps_of_all_lengths_alike_with_and_without_it_do_not_hold_it() -> None:
    """Some take ten times as long, as those that save a checkpoint, with noise of a tenth in all of them."""
    generator = random.Random(1)
    pacing = Pacing(1.15)

    def seconds(runs: bool) -> float:
        return slowed(1.03)(runs) * generator.gauss(1, 0.1) * (10 if generator.random() < 0.1 else 1)

    noted(pacing, 20 * CYCLE, seconds)
    assert pacing.held <= 1
    assert pacing.slowdown == pytest.approx(1.03, abs=0.03)


def test_chance_holds_none() -> None:
    generator = random.Random(2)
    pacing = Pacing(1.05)
    noted(pacing, 40 * CYCLE, lambda runs: slowed(1.02)(runs) * generator.gauss(1, 0.1))
    assert pacing.held <= 2


def test_a_noisy_slowdown_is_found() -> None:
    generator = random.Random(1)
    pacing = Pacing(1.05)
    noted(pacing, 20 * CYCLE, lambda runs: slowed(1.2)(runs) * generator.gauss(1, 0.1))
    assert pacing.held >= 3


def test_what_is_just_allowed_is_not_over() -> None:
    assert not is_over([1.05] * 40, [1.0] * 40, 1.05)
    assert is_over([1.06] * 8, [1.0] * 8, 1.05)
    assert not is_over([1.06] * 8, [], 1.05)


@pytest.mark.parametrize("at_most", [1.0, 0.5, -1.0, float("nan"), float("inf")])
def test_a_limit_that_is_none_is_refused(at_most: float) -> None:
    with pytest.raises(PlanError, match="is no limit: give more than 1"):
        Pacing(at_most)
