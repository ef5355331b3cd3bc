"""When a background that fails is started again, and when it hangs, by times that are given."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfwave.runtime.backoff import (
    HANG_SECONDS,
    LEAST_SECONDS,
    MOST_SECONDS,
    START_SECONDS,
    WELL_SECONDS,
    Backoff,
    Patience,
)

SECONDS = st.floats(0.0, 2 * WELL_SECONDS)


def test_one_that_fails_at_once_waits_twice_as_long_each_time_up_to_the_most() -> None:
    backoff = Backoff()
    waited = [backoff.failed(0.0) for _ in range(40)]
    assert waited[:7] == [LEAST_SECONDS * 2**n for n in range(7)]
    assert set(waited[7:]) == {MOST_SECONDS}


def test_one_that_ran_well_has_not_failed_before() -> None:
    backoff = Backoff()
    for _ in range(5):
        backoff.failed(1.0)
    assert backoff.failed(WELL_SECONDS) == LEAST_SECONDS
    assert backoff.failed(0.0) == 2 * LEAST_SECONDS


def test_one_that_ran_not_quite_so_long_has() -> None:
    backoff = Backoff()
    for _ in range(5):
        backoff.failed(1.0)
    assert backoff.failed(WELL_SECONDS - 1) == 32 * LEAST_SECONDS


@given(st.lists(SECONDS, min_size=1, max_size=30))
def test_starts_take_no_more_than_a_twentieth_of_the_time(runs: list[float]) -> None:
    backoff = Backoff()
    for ran in runs:
        waited = backoff.failed(ran)
        assert LEAST_SECONDS <= waited <= MOST_SECONDS
        assert 20 * min(ran, START_SECONDS) <= (ran + waited) * (1 + 1e-9)


def told(patience: Patience, steps: int, seconds: float) -> bool:
    """Second by second; whether it is said to hang."""
    return any(patience.hangs(steps, 1.0) for _ in range(round(seconds)))


def test_one_that_tells_no_step_is_never_said_to_hang() -> None:
    assert not told(Patience(), 0, 100 * HANG_SECONDS)


def test_one_whose_steps_stop_is_said_to_hang_once() -> None:
    patience = Patience()
    assert not any(patience.hangs(step, 1.0) for step in range(1, 100))
    assert not told(patience, 99, HANG_SECONDS)
    assert patience.hangs(99, 1.0)
    assert not patience.hangs(99, 1.0)


def test_what_it_could_not_use_is_not_counted() -> None:
    patience = Patience()
    patience.hangs(1, 1.0)
    assert not any(patience.hangs(1, 0.0) for _ in range(10_000))


def test_long_steps_are_waited_for() -> None:
    patience = Patience()
    patience.hangs(1, 1.0)
    for step in range(2, 4):
        assert not told(patience, step, 100.0)
    assert not told(patience, 3, 19 * 100.0)
    assert told(patience, 3, 2 * 100.0)


@pytest.mark.parametrize("hangs", [1, 3])
def test_each_time_it_is_waited_for_twice_as_long(hangs: int) -> None:
    patience = Patience()
    for _ in range(hangs):
        patience.began()
        assert told(patience, 1, 10 * hangs * HANG_SECONDS)
    patience.began()
    assert not told(patience, 1, 2**hangs * HANG_SECONDS)
    assert told(patience, 1, 2.0)
