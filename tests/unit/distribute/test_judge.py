"""Judging hand-offs as they are read, and the figures of a window."""

import math
from dataclasses import replace

import pytest

from tests.plans import plan_by_hand
from tfwave.distribute import judge as judging
from tfwave.distribute.figures import FunctionStep, figures_of
from tfwave.distribute.judge import Judge, Kept
from tfwave.graph.names import Channel
from tfwave.report.conformance import HandOff, conformance

STEP = "train ps -> worker"


def handed(step: int, *ranks: int, channel: str = STEP, reason: str = "ORDERED") -> list[HandOff]:
    return [HandOff(step, channel, rank, reason) for rank in ranks]


def test_a_step_is_judged_when_nothing_more_comes_of_it() -> None:
    judge = Judge()
    judge.add(handed(1, 0, 1), 0)
    assert judge.take().conforming.steps == 0
    judge.add(handed(1, 2) + handed(2, 0), 0.9)
    assert judge.take().conforming.steps == 0
    judge.add(handed(2, 1), 2.0)
    first = judge.take().conforming
    assert (first.steps, first.exact_steps, first.hand_offs) == (1, 1, 3)
    judge.add([], 9)
    assert judge.take().conforming.hand_offs == 2


def test_a_step_of_which_all_came_is_judged_at_once() -> None:
    judge = Judge()
    judge.expect({"train": plan_by_hand({Channel("ps", "worker"): ("edge_1_v", "edge_2_w")})})
    judge.add(handed(1, 0, 1) + handed(2, 0), 0)
    assert judge.take().conforming.steps == 1
    judge.add(handed(2, 1), 0.1)
    assert judge.take().conforming.exact_steps == 1


def test_what_never_came_of_a_plan_is_counted() -> None:
    """Of the second step one of two came, of the third neither was held."""
    judge = Judge()
    judge.expect({"train": plan_by_hand({Channel("ps", "worker"): ("edge_1_v", "edge_2_w")})})
    judge.add(handed(1, 0, 1) + handed(2, 1) + handed(3, 0, 1, reason="RELEASED"), 0)
    judge.add([], 9)
    kept = judge.take()
    assert (kept.conforming.hand_offs, kept.planned, kept.released) == (3, 4, 1)


def test_what_nobody_takes_is_kept_up_to_so_many_hand_offs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest steps go; what comes once they were taken is counted anew."""
    monkeypatch.setattr(judging, "_MOST_HAND_OFFS", 8)
    judge = Judge()
    for _ in range(2):
        judge.add(handed(1, 1, 0, 2) + handed(2, 0, 1, 2) + handed(3, 0, 1, 2), 0)
        judge.add([], 9)
        kept = judge.take().conforming
        assert (kept.steps, kept.exact_steps, kept.hand_offs) == (2, 2, 6)


def test_inversions_across_two_readings_are_seen() -> None:
    judge = Judge()
    judge.add(handed(1, 1), 0)
    judge.add(handed(1, 0), 0.5)
    judge.add([], 9)
    assert judge.take().conforming.inversions == 1


def test_released_steps_are_not_exact() -> None:
    judge = Judge()
    judge.add(handed(1, 0, 1) + handed(2, 0, 1, reason="RELEASED") + handed(3, 1, 0), 0)
    judge.add(handed(4, 0, channel="eval ps -> worker"), 0)
    judge.add([], 9)
    assert judge.exact_share("train") == pytest.approx(1 / 3)
    assert judge.steps("train") == 3
    kept = judge.take()
    assert (kept.conforming.steps, kept.conforming.exact_steps, kept.released) == (3, 2, 1)
    assert judge.exact_share("eval") == 1
    assert judge.exact_share("other") == 0


def test_a_step_that_was_let_go_halfway_is_not_exact() -> None:
    judge = Judge()
    judge.add(handed(1, 0, 1) + handed(1, 2, reason="RELEASED"), 0)
    judge.add([], 9)
    assert judge.exact_share("train") == 0
    kept = judge.take()
    assert (kept.conforming.steps, kept.released) == (0, 1)


def test_the_figures_are_those_of_the_function_that_takes_the_time() -> None:
    plan = plan_by_hand({Channel("a", "b"): ("edge_1_w",)})
    steps = [FunctionStep("train", worker, seconds) for worker, seconds in ((0, 1.0), (0, 3.0), (1, 4.0))]
    steps += [FunctionStep("eval", 0, 0.1)] * 5
    figures = figures_of(steps, Kept(conformance(handed(1, 0, 1) + handed(2, 1, 0)), 3, 5), {"train": plan})
    assert figures.steps == 8
    assert figures.step_seconds == 3
    assert figures.straggler == pytest.approx(0.75)
    assert figures.exact_share == 0.5
    assert figures.planned_share == 0.8
    assert figures.released == 3
    assert set(figures.logs()) == {
        f"tfwave_{name}"
        for name in (
            *("step_seconds", "efficiency", "efficiency_median", "inversions"),
            *("exact_share", "planned_share", "released", "straggler", "straggler_median"),
        )
    }


def test_stragglers_that_take_turns_do_not_cancel_out() -> None:
    """Each worker is as often the slow one: their medians are equal, and all iterations but one wait."""
    times = {0: (1.0, 4.0, 1.0, 2.0), 1: (4.0, 1.0, 2.0, 2.0, 9.0)}
    steps = [FunctionStep("train", worker, t) for worker, own in times.items() for t in own]
    figures = figures_of(steps, Kept(conformance([]), 0, 0), {})
    assert figures.straggler == pytest.approx(0.75)
    assert figures.straggler_median == pytest.approx(0.625)


def test_efficiency_is_that_of_the_best_step_and_of_the_median_one() -> None:
    """U is 3 and L is 1 by the plan."""
    plan = plan_by_hand({Channel("a", "b"): ("edge_1_w",)})
    plan = replace(plan, predicted=replace(plan.predicted, upper_seconds=3.0, lower_seconds=1.0))
    steps = [FunctionStep("train", 0, seconds) for seconds in (1.5, 2.0, 5.0)]
    figures = figures_of(steps, Kept(conformance([]), 0, 0), {"train": plan})
    assert (figures.efficiency, figures.efficiency_median) == (0.75, 0.5)


def test_an_empty_window_has_no_figures() -> None:
    figures = figures_of([], Kept(conformance([]), 0, 0), {})
    assert figures.steps == figures.released == 0
    assert all(math.isnan(v) for name, v in figures.logs().items() if name != "tfwave_released")
