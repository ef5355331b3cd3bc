"""What is kept for a job whose steps are promised in time; nothing here runs TensorFlow."""

import logging
from dataclasses import replace

import pytest

from tfwave.colocate.job import Job
from tfwave.colocate.latency import check_alone, joined, kept_bytes, no_room_kept, p95, warn_beside
from tfwave.errors import PlanError
from tfwave.memory.colocation import Colocation
from tfwave.memory.schedule import in_turn
from tfwave.plan.groups import GroupedJob, NodeGroup


def job(name: str, peak: int = 90, seconds: float = 1.0, share: float = 1.0) -> GroupedJob:
    group = NodeGroup(("op",), 0, 0, net=0, transient=peak, piece=peak // 10, seconds=seconds)
    return GroupedJob(name, (group,), 10, compute_share=share)


def test_its_peak_is_kept_with_a_margin_and_a_piece() -> None:
    assert kept_bytes(job("a")) == 122  # (10 + 90 + 9) / 0.9


def test_a_step_that_is_too_slow_alone_is_refused() -> None:
    check_alone(job("a"), 1.0)
    with pytest.raises(
        PlanError, match=r"'a' takes 1 s alone, over its latency_at_most of 0\.5 s: allow more"
    ):
        check_alone(job("a"), 0.5)
    assert "keeps 122 bytes for it" in str(no_room_kept(job("a"), 100))


def test_others_are_planned_in_what_is_left_and_it_has_slots_behind_them() -> None:
    others = [job("b"), job("c")]
    plan = Colocation(tuple(others), in_turn(others), 160)
    whole = joined(plan, [job("a")], 160 + kept_bytes(job("a")))
    assert whole is not None
    assert [each.name for each in whole.jobs] == ["a", "b", "c"]
    assert [turn.job for slot in whole.slots for turn in slot] == ["b", "c", "a"]
    alone = joined(None, [job("a")], kept_bytes(job("a")))
    assert alone is not None
    assert (alone.jobs, joined(plan, [], 160), joined(None, [], 160)) == ((job("a"),), plan, None)


def test_it_is_said_where_the_cores_are_too_busy(caplog: pytest.LogCaptureFixture) -> None:
    small, busy = job("a", share=0.5), job("b", share=1.0)
    with caplog.at_level(logging.WARNING, logger="tfwave"):
        warn_beside(small, [replace(busy, compute_share=0.5)], 1.0)
        assert not caplog.messages
        warn_beside(small, [busy], 1.6)
    assert "a step of the job 'a' takes about 1.7 s beside all others by the model" in caplog.messages[0]


def test_what_95_of_100_keep_to() -> None:
    assert p95([]) is None
    assert p95([2.0]) == 2.0
    assert p95([float(number) for number in range(100, 0, -1)]) == 95.0
    assert p95([1.0] * 19 + [9.0]) == 1.0


@pytest.mark.parametrize("latency", [0.0, -1.0, float("nan")])
def test_a_latency_is_above_0(latency: float) -> None:
    with pytest.raises(PlanError, match=r"the job 'a' has a latency_at_most of .* s: give more than 0"):
        Job("a", None, (), latency_at_most=latency)
