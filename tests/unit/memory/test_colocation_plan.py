"""What the planner of co-located jobs chooses, and what it refuses."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.graphs import WORKER, by_name
from tests.grouped import graph_of, group, grouped, limit_for, slots_of
from tfwave.errors import PlanError
from tfwave.graph.view import GraphView
from tfwave.memory.colocation import FINENESSES, Colocation, JobStep, Policy, colocate
from tfwave.memory.groups import levelled
from tfwave.memory.pairing import algorithm_one
from tfwave.memory.profile import MemoryProfile, OpMemory
from tfwave.memory.schedule import CONTENTION, in_turn, modelled_seconds
from tfwave.memory.slots import ALONE_MARGIN, SHARED_MARGIN, Rooms, can_finish, fits, room, staggered_slots
from tfwave.plan.groups import GroupedJob, Turn


def step(
    name: str,
    bytes_up: int = 10,
    layers: int = 4,
    *,
    seconds: float = 1.0,
    resident: int = 0,
    slowed_at_most: float | None = None,
) -> JobStep:
    """A chain of ops: each of the first half allocates, each of the second frees what one of them did."""
    nets = [bytes_up] * layers + [-bytes_up] * layers
    return chain(name, nets, seconds=seconds, resident=resident, slowed_at_most=slowed_at_most)


def chain(
    name: str,
    nets: Sequence[int],
    *,
    seconds: float = 1.0,
    resident: int = 0,
    slowed_at_most: float | None = None,
) -> JobStep:
    names = [f"op{number}" for number in range(len(nets))]
    graph = graph_of(**dict(zip(names, ["", *names], strict=False)))
    ops = [OpMemory(op, max(net, 0), 0, max(-net, 0)) for op, net in zip(names, nets, strict=True)]
    profile = MemoryProfile(WORKER, ops, resident)
    view = GraphView.of(graph)
    return JobStep(name, view, profile, by_name(view, dict.fromkeys(names, seconds), {}), slowed_at_most)


def test_where_there_is_room_all_run_side_by_side() -> None:
    found = colocate([step("a"), step("b")], 1000)
    assert found.seconds == 8 == found.in_turn_seconds / 2
    assert found.peak_bytes == 80
    assert not found.is_in_turn


def test_equal_times_go_to_the_fewest_slots() -> None:
    assert len(colocate([step("a"), step("b")], 1000).slots) == 1


def test_less_room_takes_more_slots_and_more_time() -> None:
    """The second starts later, and the groups are finer; in the least room, one whole step follows the other."""
    limits = (101, 90, 80, 70, 62, limit_for(40))
    found = [colocate([step("a"), step("b")], limit) for limit in limits]
    assert [f.seconds for f in found] == [8, 10, 11, 12, 13, 16]
    assert all(f.peak_bytes <= f.limit_bytes for f in found)


def test_in_turn_where_nothing_may_run_side_by_side() -> None:
    found = colocate([step("a", 40, 1), step("b", 40, 1)], limit_for(40))
    assert found.slots == in_turn(found.jobs)
    assert (found.seconds, found.is_in_turn) == (4, True)


def test_slots_of_two_and_of_cut_steps_have_the_larger_margin() -> None:
    """80 bytes side by side want a limit of 89, 40 in turn one of 45, or of 41 where nothing cuts the steps."""
    jobs = grouped("a", 40, -40), grouped("b", 40, -40)
    assert (room(89, 2), room(88, 2), room(41, 1), room(40, 1)) == (80, 79, 40, 39)
    side_by_side = slots_of("a0+b0 a1+b1")
    assert fits(jobs, side_by_side, 89)
    assert not fits(jobs, side_by_side, 88)
    assert fits(jobs, in_turn(jobs), 45)
    assert not fits(jobs, in_turn(jobs), 44)
    whole = tuple([GroupedJob(job.name, (group(0, 40),), 0) for job in jobs])
    assert fits(whole, in_turn(whole), 41)
    assert not fits(whole, in_turn(whole), 40)
    assert 0 < ALONE_MARGIN < SHARED_MARGIN


def test_slots_of_two_and_of_cut_steps_have_room_for_the_largest_piece() -> None:
    """One op of ``b`` asks for 9 bytes at once, in whichever slot."""
    jobs = grouped("a", 40, -40), GroupedJob("b", (group(40, piece=2), group(-40, piece=9)), 0)
    side_by_side = slots_of("a0+b0 a1+b1")
    assert fits(jobs, side_by_side, 99)
    assert not fits(jobs, side_by_side, 98)
    assert fits(jobs, in_turn(jobs), 55)
    assert not fits(jobs, in_turn(jobs), 54)
    whole = tuple([GroupedJob(job.name, (group(0, 40, piece=9),), 0) for job in jobs])
    assert fits(whole, in_turn(whole), 41)
    assert fits(whole, slots_of("a0+b0"), 99)
    assert not fits(whole, slots_of("a0+b0"), 98)


def test_one_cut_step_gives_all_the_larger_margin() -> None:
    """As the ledger has one room for all that run alone."""
    jobs = grouped("a", 10, -10), GroupedJob("b", (group(0, 40),), 0)
    assert not fits(jobs, in_turn(jobs), 44)
    assert fits(jobs, in_turn(jobs), 45)


def test_resident_bytes_of_all_count_from_the_start() -> None:
    """Case 1: side by side. Case 2: in turn, with the other's. Case 3: not at all."""
    steps = [step("a", resident=100), step("b", resident=50)]
    assert colocate(steps, limit_for(240, 2)).peak_bytes == 100 + 50 + 80
    least = limit_for(190)
    assert colocate(steps, least).peak_bytes == 100 + 50 + 40
    with pytest.raises(
        PlanError, match="the job 'a' peaks at 140 bytes beside the 50 bytes that the other jobs hold"
    ):
        colocate(steps, least - 1)


def test_one_job_that_does_not_fit() -> None:
    message = (
        "the job 'big' alone peaks at 400 bytes by the model, and of the limit of 400 bytes, "
        f"{room(400, 1)} bytes are left by the margin: give it a smaller batch, or raise the limit"
    )
    with pytest.raises(PlanError) as caught:
        colocate([step("a"), step("big", 100)], 400)
    assert str(caught.value) == message


def test_either_job_may_be_the_first() -> None:
    """``small`` may hold its 6 bytes beside the first op of ``large``, if it need not wait for all of that."""
    found = colocate([chain("large", [2, 8, -10]), chain("small", [6, -6])], limit_for(10 + 8, 2))
    assert found.seconds == 4
    assert found.slots[0] == (Turn("small", 0), Turn("large", 0))


def test_one_job_needs_no_other() -> None:
    found = colocate([step("a")], limit_for(40))
    assert (found.seconds, found.peak_bytes, found.is_in_turn) == (8, 40, True)
    assert found.slowed(found.jobs[0]) == 0


def test_jobs_of_different_models() -> None:
    """The small one runs beside the large one, whichever limit is given, and slows it not at all."""
    large, small = step("large", 100, 8), step("small", 5, 2, seconds=0.5)
    found = colocate([large, small], 1000)
    assert {job.name: sum(len(g.ops) for g in job.groups) for job in found.jobs} == {"large": 16, "small": 4}
    assert found.seconds == 16
    assert found.slowed(found.jobs[0]) == 0
    assert found.slowed(found.jobs[1]) == 16 / 2 - 1


def test_steps_that_keep_all_units_busy_take_turns() -> None:
    """Case 1: side by side they would only slow each other. Case 2: there is something to gain."""
    busy = [replace(step(name), compute_share=0.9) for name in "ab"]
    assert colocate(busy, 1000).is_in_turn
    assert colocate(busy, 1000).seconds == 16
    half = replace(busy[0], compute_share=0.5)
    found = colocate([half, busy[1]], 1000)
    assert not found.is_in_turn
    assert found.seconds == pytest.approx(8 * (1 + CONTENTION * 0.4))


def test_in_turn_is_a_choice_by_pair() -> None:
    """Two keep all units busy, and take turns; the third runs beside either."""
    busy = [replace(step(name), compute_share=1.0) for name in "ab"]
    light = replace(step("light"), compute_share=0.1)
    found = colocate([*busy, light], 1000)
    assert found.turns == (("a", "b"),)
    assert found.seconds == pytest.approx(8 + 8 * (1 + CONTENTION * 0.1))
    assert colocate(busy, 1000).turns == (("a", "b"),)
    assert colocate([step("a"), step("b")], 70).turns == ()


def test_what_hardly_saves_anything_runs_in_turn_unless_a_job_minds() -> None:
    large, small = step("large"), step("small", seconds=0.04)
    assert colocate([large, small], 1000).is_in_turn
    assert not colocate([replace(large, slowed_at_most=0), small], 1000).is_in_turn


@pytest.mark.parametrize("share", [0, 1.01, math.nan])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(PlanError, match=f"'a' keeps a share of {share} busy"):
        replace(step("a"), compute_share=share)


def test_three_jobs_share_two_units() -> None:
    found = colocate([step(name) for name in "abc"], 1000)
    assert (found.seconds, found.peak_bytes) == (8 * (1 + CONTENTION / 2), 120)
    assert colocate([step(name, 40, 1) for name in "abc"], limit_for(40)).seconds == 6


def test_a_job_that_may_be_slowed_by_so_much() -> None:
    """Case 1: by nothing. Case 2: by less than there is room for. Case 3: by all that the other's turn costs."""
    free, first = step("b", 40, 1), step("a", 40, 1, slowed_at_most=0)
    assert colocate([free, first], 1000).seconds == 2
    with pytest.raises(
        PlanError, match="the steps of the job 'a' come 100% slower at the least, and it allows 50%"
    ):
        colocate([free, replace(first, slowed_at_most=0.5)], limit_for(40))
    assert colocate([free, replace(first, slowed_at_most=1)], limit_for(40)).is_in_turn


def test_a_longer_step_beside_it_slows_a_job() -> None:
    steps = [step("long", seconds=2), step("short", slowed_at_most=0.5)]
    with pytest.raises(PlanError, match="'short' come 100% slower at the least"):
        colocate(steps, 1000)


@pytest.mark.parametrize("share", [-0.1, float("nan")])
def test_a_share_that_is_none(share: float) -> None:
    with pytest.raises(PlanError, match="the job 'a' allows to be slowed by"):
        step("a", slowed_at_most=share)


def test_nothing_to_plan() -> None:
    with pytest.raises(PlanError, match="no job"):
        colocate([], 100)
    with pytest.raises(PlanError, match="two jobs are named 'a'"):
        colocate([step("a"), step("a")], 100)


def test_a_job_without_ops_takes_no_slot() -> None:
    view = step("x").view
    idle = JobStep("idle", view, MemoryProfile(WORKER, [], 7), by_name(view, {}, {}))
    found = colocate([step("a"), idle], 100)
    assert {turn.job for slot in found.slots for turn in slot} == {"a"}
    assert found.peak_bytes == 47
    assert colocate([idle], 100).slots == ()


def test_the_order_in_which_jobs_are_given_makes_no_difference() -> None:
    steps = [step("a"), step("b", 7), step("c", 9, 5)]
    assert colocate(steps, 100) == colocate(steps[::-1], 100)


def test_a_job_starts_so_many_slots_after_the_one_before() -> None:
    jobs = grouped("a", 1, 1, -2), grouped("b", 1, -1), grouped("c", 1, -1)
    assert staggered_slots(jobs, 1, 100) == slots_of("a0 a1+b0 a2+b1+c0 c1")
    assert staggered_slots(jobs, 9, 100) == in_turn(jobs)


def test_a_job_waits_where_it_would_keep_the_first_from_its_end() -> None:
    """Beside ``a0`` is room for ``b0``, but not for what it would then hold beside ``a1``."""
    jobs = grouped("a", 1, 8, -9), grouped("b", 4, -4)
    assert staggered_slots(jobs, 0, 12) == slots_of("a0 a1 a2 b0 b1")
    assert staggered_slots(jobs, 0, 15) == slots_of("a0+b0 a1+b1 a2")
    assert can_finish(jobs, {"a": 1, "b": 1}, limit_for(13, 2))
    assert not can_finish(jobs, {"a": 1, "b": 1}, limit_for(13, 2) - 1)


def test_slots_that_do_not_keep_to_the_limit_are_no_colocation() -> None:
    jobs = grouped("a", 40, -40), grouped("b", 40, -40)
    assert Colocation(jobs, slots_of("a0+b0 a1+b1"), 89).peak_bytes == 80
    with pytest.raises(PlanError, match="the slots take 80 bytes by the model"):
        Colocation(jobs, slots_of("a0+b0 a1+b1"), 88)
    with pytest.raises(PlanError, match="out of turn"):
        Colocation(jobs, slots_of("a1+b0 a0+b1"), 89)


def cut_at(steps: Sequence[JobStep], split_size: int) -> list[GroupedJob]:
    return [s.in_groups(levelled(s.view, s.profile, s.costs).cut(split_size)) for s in steps]


def test_algorithm_one_is_a_policy() -> None:
    """Of the finenesses, the one that it is fastest with in the room; the search is never slower."""
    steps = [step("a"), step("b", seconds=2.0)]
    for limit in (70, 80, 101):
        found = colocate(steps, limit, Policy.ALGORITHM_1)
        tried = [cut_at(steps, -(-40 // parts)) for parts in FINENESSES if parts]
        paired = [(jobs, algorithm_one(jobs, Rooms.of(jobs, limit).shared)) for jobs in tried]
        kept = [modelled_seconds(jobs, slots) for jobs, slots in paired if fits(jobs, slots, limit)]
        assert found.seconds == min(kept) >= colocate(steps, limit).seconds
        assert max(map(len, found.slots)) == 2


def test_algorithm_one_pairs_where_the_search_would_not() -> None:
    """Steps that keep all units busy slow each other: in turn is faster, and it is not what was asked for."""
    steps = [replace(step(name), compute_share=1.0) for name in "ab"]
    assert colocate(steps, 1000).is_in_turn
    found = colocate(steps, 1000, Policy.ALGORITHM_1)
    assert not found.is_in_turn
    assert found.seconds > found.in_turn_seconds


@pytest.mark.parametrize("policy", list(Policy))
def test_a_split_size_is_kept_to(policy: Policy) -> None:
    """Groups end at so many bytes, whatever the policy would try; larger than any rise, it leaves steps whole."""
    steps = [step("a"), step("b")]
    found = colocate(steps, 101, policy, split_size=20)
    assert [[g.net for g in job.groups] for job in found.jobs] == [[20, 20, -20, -20]] * 2
    assert [len(job.groups) for job in colocate(steps, 101, policy, split_size=41).jobs] == [1, 1]


def test_groups_that_leave_no_room_are_told_from_jobs_that_do_not_fit() -> None:
    steps = [step("a"), step("b")]
    for policy, split_size in ((Policy.ALGORITHM_1, None), (Policy.SEARCH, 20)):
        with pytest.raises(
            PlanError, match="whole steps in turn do: take another split size, or the policy 's"
        ):
            colocate(steps, limit_for(40), policy, split_size)
        with pytest.raises(PlanError, match="the job 'a' alone peaks at 40 bytes"):
            colocate(steps, 30, policy, split_size)
    with pytest.raises(PlanError, match="a split size of 0 bytes cuts nothing"):
        colocate(steps, 100, split_size=0)
