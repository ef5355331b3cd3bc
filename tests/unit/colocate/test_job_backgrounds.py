"""Backgrounds among the jobs of a pool: when they are held, and what is refused."""

import threading

import pytest

from tfwave.colocate.backgrounds import Backgrounds, Held
from tfwave.colocate.job import Job, SessionStep
from tfwave.colocate.life import Life
from tfwave.colocate.pacing import FIRST_STEPS, IDLE_SECONDS, PAUSED_STEPS, RUNNING_STEPS, SETTLE_STEPS
from tfwave.errors import EnforcerError, PlanError

BACK = Job("back", None, (), background=True, slowdown_at_most=1.5)
FRONT, OTHER = Job("front", None, ()), Job("other", None, ())


@pytest.fixture
def now() -> list[float]:
    """The time."""
    return [100.0]


@pytest.fixture
def backgrounds(now: list[float]) -> Backgrounds:
    made = Backgrounds(lambda: now[0])
    made.begin(FRONT)
    made.begin(BACK)
    return made


def note(backgrounds: Backgrounds, steps: int, seconds: float = 0.1, job: Job = FRONT) -> None:
    for _ in range(steps):
        with backgrounds.step(job):
            pass
        backgrounds.note(job, seconds)


def release(backgrounds: Backgrounds, job: Job = FRONT) -> None:
    note(backgrounds, FIRST_STEPS + PAUSED_STEPS, job=job)


def test_it_may_step_until_another_job_has_planned_steps(backgrounds: Backgrounds) -> None:
    assert backgrounds.may_step(BACK, 0)
    note(backgrounds, 1)
    assert not backgrounds.may_step(BACK, 0)
    assert backgrounds.may_step(FRONT, 0)
    release(backgrounds)
    assert backgrounds.may_step(BACK, 0)


def test_it_waits_for_all_others_and_not_for_one_that_has_ended(backgrounds: Backgrounds) -> None:
    release(backgrounds)
    note(backgrounds, 1, job=OTHER)
    assert not backgrounds.may_step(BACK, 0)
    assert backgrounds.leave(OTHER) == Held()
    assert backgrounds.may_step(BACK, 0)


def test_it_does_not_wait_for_one_that_is_idle(backgrounds: Backgrounds, now: list[float]) -> None:
    note(backgrounds, 1)
    now[0] += 0.99 * IDLE_SECONDS
    assert not backgrounds.may_step(BACK, 0)
    now[0] += 0.02 * IDLE_SECONDS
    assert backgrounds.may_step(BACK, 0)
    with backgrounds.step(FRONT):
        now[0] += 2 * IDLE_SECONDS
        assert not backgrounds.may_step(BACK, 0)
    assert not backgrounds.may_step(BACK, 0)
    now[0] += IDLE_SECONDS
    assert backgrounds.may_step(BACK, 0)
    note(backgrounds, 1, job=OTHER)
    assert not backgrounds.may_step(BACK, 0)


def test_who_waits_is_told(backgrounds: Backgrounds) -> None:
    note(backgrounds, 1)
    allowed: list[bool] = []
    waiting = threading.Thread(target=lambda: allowed.append(backgrounds.may_step(BACK, 60)))
    waiting.start()
    release(backgrounds)
    waiting.join(60)
    assert allowed == [True]


def test_steps_beside_it_are_held_against_those_without(backgrounds: Backgrounds) -> None:
    release(backgrounds)
    with backgrounds.step(BACK):
        note(backgrounds, SETTLE_STEPS + RUNNING_STEPS, 0.12)
    assert not backgrounds.may_step(BACK, 0)
    note(backgrounds, SETTLE_STEPS + PAUSED_STEPS)
    assert backgrounds.may_step(BACK, 0)
    held = backgrounds.leave(BACK)
    assert held.slowdown == pytest.approx(1.2)
    assert held.times == 0


def test_it_is_held_where_it_slows_too_much(backgrounds: Backgrounds) -> None:
    release(backgrounds)
    with backgrounds.step(BACK):
        note(backgrounds, SETTLE_STEPS + 8, 0.2)
        note(backgrounds, 20)  # of a step that it still makes, though it is to be paused, they tell nothing
    note(backgrounds, SETTLE_STEPS + PAUSED_STEPS)
    assert not backgrounds.may_step(BACK, 0)
    assert backgrounds.leave(FRONT) == Held()
    assert backgrounds.leave(BACK).times == 1


def test_steps_tell_nothing_of_one_that_should_run_and_does_not(backgrounds: Backgrounds) -> None:
    release(backgrounds)
    note(backgrounds, RUNNING_STEPS, 9.0)
    assert backgrounds.leave(BACK) == Held()


def test_its_own_steps_tell_nothing(backgrounds: Backgrounds) -> None:
    note(backgrounds, 1, job=BACK)
    assert backgrounds.may_step(BACK, 0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"background": True, "priority": 1}, "goes behind all others"),
        ({"background": True, "latency_at_most": 1.0}, "goes behind all others"),
        ({"slowdown_at_most": 1.05}, "is no background"),
        ({"background": True, "slowdown_at_most": 1.0}, "give more than 1"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, float], said: str) -> None:
    with pytest.raises(PlanError, match=said):
        Job("a", None, (), **options)  # type: ignore[arg-type]


def test_it_is_below_every_priority() -> None:
    assert BACK.rank < Job("a", None, (), priority=-(1 << 62)).rank < FRONT.rank


def test_the_threads_of_its_step_are_its_own() -> None:
    with pytest.raises(EnforcerError, match=r"give a SessionStep of a tfwave\.colocate\.background_session"):
        Life(Job("a", SessionStep(Ellipsis, None), (), background=True))
