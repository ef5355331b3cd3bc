"""Slots and what they hold; Algorithm 1 as it is printed, and as it is mended."""

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.grouped import group, grouped, random_jobs, slots_of
from tfwave.errors import PlanError
from tfwave.memory.pairing import algorithm_one
from tfwave.memory.schedule import CONTENTION, in_turn, modelled_peak, modelled_seconds
from tfwave.plan.groups import GroupedJob, Slot, Turn, check_slots

A, B = grouped("a", 4, 4, -4, -4), grouped("b", 3, -3)


def printed(jobs: Sequence[GroupedJob], p: int) -> tuple[Slot, ...]:
    """Algorithm 1 of the paper line by line, for jobs that are sorted."""
    av, dv = dict[int, Turn](), dict[int, Turn]()
    ups = [sum(g.net > 0 for g in job.groups) for job in jobs]
    offset, idx1, idx2 = ups[0] - p, 0, ups[0]
    for number, job in enumerate(jobs):
        i = 0
        while number == 1 and i < p:
            dv[offset] = Turn(job.name, i)
            offset, i = offset + 1, i + 1
        while i < ups[number]:
            av[idx1] = Turn(job.name, i)
            idx1, i = idx1 + 1, i + 1
        while i < len(job.groups):
            if number == len(jobs) - 1 and idx2 > idx1:
                av[idx1] = Turn(job.name, i)
                idx1 += 1
            else:
                dv[idx2] = Turn(job.name, i)
                idx2 += 1
            i += 1
    return tuple(tuple(v[k] for v in (av, dv) if k in v) for k in range(max([*av, *dv]) + 1))


def test_where_both_memories_fit_all_that_can_be_is_paired() -> None:
    first, second = grouped("a", 4, 4, -4, -4), grouped("b", 3, 3, -3, -3)
    assert algorithm_one((first, second), 100) == slots_of("a0+b0 a1+b1 b2+a2 b3+a3")


def test_the_second_job_starts_later_where_memory_is_less() -> None:
    first, second = grouped("a", 4, 4, -4, -4), grouped("b", 3, 3, -3, -3)
    assert algorithm_one((first, second), 14) == slots_of("a0+b0 a1+b1 b2+a2 b3+a3")
    assert algorithm_one((first, second), 13) == slots_of("a0 a1 b0+a2 b1+a3 b2 b3")


def test_the_larger_groups_come_first_then_the_name() -> None:
    assert algorithm_one((B, A), 8) == algorithm_one((A, B), 8)
    assert algorithm_one((B, A), 8)[0] == (Turn("a", 0),)
    twins = grouped("y", 1, -1), grouped("x", 1, -1)
    assert algorithm_one(twins, 1)[0] == (Turn("x", 0),)


def test_printed_two_groups_of_a_job_in_one_pair() -> None:
    """The last job's frees go to both streams in turn: the next to a place where the other stream has one of it."""
    jobs = grouped("a", 4, -4), grouped("b", 3, -1, -1, -1)
    wrong = printed(jobs, 1)
    assert any(len({turn.job for turn in slot}) < len(slot) for slot in wrong)
    with pytest.raises(PlanError, match="out of turn"):
        check_slots(jobs, wrong)
    check_slots(jobs, algorithm_one(jobs, 8))


def test_printed_a_later_group_before_an_earlier_one() -> None:
    """The second job has more rises left than the first has falls: its fall lands beside the first's last."""
    jobs = grouped("a", 9, -9), grouped("b", 3, 3, 3, -9)
    wrong = printed(jobs, 0)
    where = {turn.group: place for place, slot in enumerate(wrong) for turn in slot if turn.job == "b"}
    assert where[3] < where[2]
    with pytest.raises(PlanError, match="out of turn"):
        check_slots(jobs, wrong)
    check_slots(jobs, algorithm_one(jobs, 9))


def test_where_the_printed_algorithm_is_sound_the_mended_one_equals_it() -> None:
    first = grouped("a", 4, 4, 4, -4, -4, -4)
    for second, p in ((grouped("b", 3, 3, 3, -3, -3, -3), 3), (grouped("b", 3, 3, -3, -3), 2)):
        check_slots((first, second), printed((first, second), p))
        assert algorithm_one((first, second), 100) == printed((first, second), p)


def test_p_is_counted_in_real_bytes() -> None:
    """A split size of 4 and 11 bytes to spare are a p of 1 as printed; the groups are of 6, so that none fits."""
    jobs = grouped("a", 4, 4, 4, -12), grouped("b", 6, 6, -6, -6)
    assert algorithm_one(jobs, 23) == slots_of("a0 a1 a2 b0+a3 b1 b2 b3")
    assert algorithm_one(jobs, 24) == slots_of("a0 a1+b0 a2+b1 b2+a3 b3")


def test_p_is_the_most_that_fits() -> None:
    jobs = grouped("a", 5, 5, -10), grouped("b", 4, 4, 4, -6, -6)
    assert algorithm_one(jobs, 17) == slots_of("a0 a1 b0+a2 b1 b2 b3 b4")
    assert algorithm_one(jobs, 18) == slots_of("a0 a1+b0 b1+a2 b2 b3 b4")
    assert algorithm_one(jobs, 22) == slots_of("a0+b0 a1+b1 b2+a2 b3 b4")


def test_p_is_never_below_nothing_nor_above_all() -> None:
    jobs = grouped("a", 4, 4, -8), grouped("b", 3, -3)
    assert algorithm_one(jobs, 0) == algorithm_one(jobs, 8) == slots_of("a0 a1 b0+a2 b1")
    assert algorithm_one(jobs, 10**9) == slots_of("a0 a1+b0 b1+a2")


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4])
def test_any_number_of_jobs(count: int) -> None:
    for seed in range(60):
        jobs = random_jobs(random.Random(f"{count}/{seed}"), count)
        check_slots(jobs, algorithm_one(jobs, 20))


def test_a_third_job_follows_in_the_streams_of_the_others() -> None:
    jobs = grouped("a", 4, -4), grouped("b", 3, -3), grouped("c", 2, -2)
    assert algorithm_one(jobs, 4) == slots_of("a0 b0+a1 c0+b1 c1")


def test_both_peaks_of_a_pair_come_at_once() -> None:
    high = replace(A, groups=(group(4, 9), *A.groups[1:]), resident=100)
    other = replace(B, groups=(group(3, 5), group(-3)), resident=10)
    assert modelled_peak((high, other), slots_of("a0+b0")) == 110 + 9 + 5
    assert modelled_peak((high, other), slots_of("a0 b0")) == 110 + 9
    assert modelled_peak((high, other), slots_of("b0 a0")) == 110 + 3 + 9


def test_what_waits_holds_what_it_holds() -> None:
    assert modelled_peak((A, B), slots_of("a0 a1 b0+a2 b1+a3")) == 8 + 3
    assert modelled_peak((A, B), slots_of("b0 a0 a1 b1 a2 a3")) == 8 + 3
    assert modelled_peak((A, B), in_turn((A, B))) == 8
    assert modelled_peak((A, replace(B, resident=7)), ()) == 7


def test_a_slot_takes_as_long_as_its_longest_group() -> None:
    slow = replace(B, groups=(group(3, seconds=5), group(-3, seconds=0.5)))
    assert modelled_seconds((A, slow), slots_of("a0+b0 a1+b1 a2 a3")) == 5 + 1 + 1 + 1
    assert modelled_seconds((A, slow), in_turn((A, slow))) == 4 + 5.5


def test_busy_jobs_slow_each_other() -> None:
    busy = replace(A, compute_share=0.75)
    assert modelled_seconds((busy, B), slots_of("a0+b0 a1+b1 a2 a3")) == 2 * (1 + CONTENTION * 0.25) + 2
    assert modelled_seconds((busy, B), in_turn((busy, B))) == 6


def test_three_groups_share_two_units() -> None:
    jobs = grouped("a", 1), grouped("b", 1), grouped("c", 1)
    assert modelled_seconds(jobs, slots_of("a0+b0+c0")) == 1 + CONTENTION * 0.5
    assert modelled_seconds(jobs, slots_of("a0+b0 c0")) == 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a0 a1 a2 a3 b0", "group 1 of the job 'b' has no slot"),
        ("a1 a0 a2 a3 b0 b1", "slot 0 has group 1 of the job 'a' out of turn"),
        ("a0+a1 a2 a3 b0 b1", "slot 0 has group 1 of the job 'a' out of turn"),
        ("a0+a0 a2 a3 b0 b1", "slot 0 has group 0 of the job 'a' out of turn"),
        ("a0 a0 a1 a2 a3 b0 b1", "slot 1 has group 0 of the job 'a' out of turn"),
        ("a0 a1 a2 a3 a4 b0 b1", "slot 4 has group 4 of the job 'a' out of turn"),
        ("a0 c0", "slot 1 has group 0 of the job 'c' out of turn"),
    ],
)
def test_slots_that_are_no_schedule(text: str, reason: str) -> None:
    check_slots((A, B), slots_of("a0 a1+b0 a2+b1 a3"))
    with pytest.raises(PlanError, match=reason):
        check_slots((A, B), slots_of(text))


def test_an_empty_slot_and_two_jobs_of_one_name() -> None:
    with pytest.raises(PlanError, match="slot 0 is empty"):
        check_slots((), ((),))
    with pytest.raises(PlanError, match="two jobs are named 'a': name them apart"):
        algorithm_one((A, A), 100)
