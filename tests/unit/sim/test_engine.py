"""The kernel, case by case."""

from collections.abc import Sequence
from math import inf

import pytest

from tfwave.plan.discipline import Discipline
from tfwave.sim.engine import UNTIMED, Job, Lane, Outcome, Pool, run

POOL, LANE = 0, 1


def job(
    durations: Sequence[int],
    edges: Sequence[tuple[int, int]] = (),
    *,
    units: Sequence[int] | None = None,
    pool: Pool | None = None,
    lanes: Sequence[Lane] = (Lane(),),
    bandwidths: Sequence[float] = (),
    order: Sequence[int] | None = None,
) -> Job:
    """Tasks 0, 1, ...: on the pool, if `units` says nothing else; in the order of their numbers."""
    tasks = range(len(durations))
    at = [POOL] * len(tasks) if units is None else units
    successors: list[list[int]] = [[] for _ in tasks]
    pending = [0] * len(tasks)
    for early, late in edges:
        successors[early].append(late)
        pending[late] += 1
    pooled = [t for t in order or tasks if at[t] == POOL]
    carried = [t for t in order or tasks if at[t] >= LANE]
    pools = [pool or Pool()]
    return Job(at, durations, successors, pending, pools, lanes, pooled, carried, bandwidths)


def begins(given: Job, order: Sequence[int] | None = None) -> list[int]:
    return run(given, order).begin


def test_one_server_runs_one_task_after_another_in_the_order_given() -> None:
    assert run(job([3, 2, 1], order=[2, 0, 1])) == Outcome([1, 4, 0], [4, 6, 1], 6, [])


def test_several_servers() -> None:
    assert begins(job([3, 2, 1, 1], pool=Pool(2))) == [0, 0, 2, 3]


def test_readiness_comes_before_the_order_in_a_fifo_pool() -> None:
    """Task 0 runs until 4; task 1 is ready at 1 and task 2 at 2, but 2 stands first in the order."""
    units = [POOL, POOL, POOL, UNTIMED, UNTIMED]
    durations, edges, order = [4, 1, 1, 1, 2], [(3, 1), (4, 2)], [2, 0, 1]
    assert begins(job(durations, edges, units=units, order=order))[:3] == [0, 4, 5]
    by_order = job(durations, edges, units=units, order=order, pool=Pool(fifo=False))
    assert begins(by_order)[:3] == [0, 5, 4]


def test_all_that_ends_at_an_instant_ends_before_the_next_choice() -> None:
    """At 2 the delay lets task 2 go, which stands before task 1; the server is free at 2 as well."""
    units = [POOL, POOL, POOL, UNTIMED]
    tied = job([2, 1, 1, 2], [(3, 2)], units=units, order=[2, 0, 1], pool=Pool(fifo=False))
    assert begins(tied)[:3] == [0, 3, 2]


def test_lanes_choose_before_servers_do() -> None:
    """The transfer takes no time: what it lets go is there when the server chooses."""
    given = job([1, 1, 0], [(2, 0)], units=[POOL, POOL, LANE], pool=Pool(fifo=False))
    assert begins(given) == [0, 1, 0]


def test_what_takes_no_time_and_no_unit_is_done_at_once() -> None:
    barrier = job(
        [2, 3, 0, 0, 1], [(0, 2), (1, 2), (2, 3), (3, 4)], units=[POOL, POOL, UNTIMED, UNTIMED, POOL]
    )
    assert run(barrier) == Outcome([0, 2, 5, 5, 5], [2, 5, 5, 5, 6], 6, [])


def test_long_chains_that_take_no_time() -> None:
    chain = job([0] * 5000 + [1], [(i, i + 1) for i in range(5000)], units=[UNTIMED] * 5000 + [POOL])
    assert run(chain).finish == 1


def test_no_task_takes_no_time() -> None:
    assert run(job([])) == Outcome([], [], 0, [])


@pytest.mark.parametrize(
    ("discipline", "expected"),
    [(None, [4, 5, 0]), (Discipline.COUNTER, [2, 3, 7]), (Discipline.PRIORITY, [4, 5, 0])],
)
def test_only_a_counter_idles_for_what_is_not_ready(
    discipline: Discipline | None, expected: list[int]
) -> None:
    """Tasks 0 and 1, the first in the order, are ready at 2; task 2, the last, at 0."""
    given = job(
        [1, 4, 4, 2],
        [(3, 0), (3, 1)],
        units=[LANE, LANE, LANE, UNTIMED],
        lanes=[Lane(discipline)],
    )
    assert begins(given)[:3] == expected


def test_priority_takes_the_first_in_the_order_of_those_ready_and_none_the_first_that_was_ready() -> None:
    """The lane is busy until 5; task 1 is ready at 1, task 2, before it in the order, at 2."""
    units = [LANE, LANE, LANE, UNTIMED, UNTIMED]
    durations, edges, order = [5, 1, 1, 1, 2], [(3, 1), (4, 2)], [0, 2, 1]
    for discipline, expected in ((Discipline.PRIORITY, [0, 6, 5]), (None, [0, 5, 6])):
        given = job(durations, edges, units=units, lanes=[Lane(discipline)])
        assert begins(given, order)[:3] == expected


def test_the_lane_serves_the_next_while_a_task_is_on_its_way() -> None:
    given = job([3, 3], units=[LANE, LANE], lanes=[Lane(latency=10)])
    assert run(given) == Outcome([0, 3], [13, 16], 16, [])


def test_a_counter_that_waits_for_itself() -> None:
    given = job([1, 1, 1], [(0, 2), (2, 1)], units=[LANE, LANE, POOL], lanes=[Lane(Discipline.COUNTER)])
    assert run(given).blocked == []
    assert run(given, [1, 0]) == Outcome([-1, -1, -1], [-1, -1, -1], 0, [1])


def lanes(*ports: tuple[int, int], bandwidths: Sequence[float], durations: Sequence[int]) -> Outcome:
    """One task on each lane; all start together."""
    units = range(LANE, LANE + len(ports))
    specs = [Lane(ports=own) for own in ports]
    return run(job(durations, units=units, lanes=specs, bandwidths=bandwidths))


def test_two_lanes_share_a_port_and_the_one_left_has_it_alone() -> None:
    """Half speed until the short one ends at 20; the other has 30 left."""
    assert lanes((0, 1), (0, 2), bandwidths=[1, 1, 1], durations=[10, 40]).end == [20, 50]


def test_egress_and_ingress_do_not_disturb_each_other() -> None:
    assert lanes((0, 3), (1, 2), bandwidths=[1] * 4, durations=[10, 40]).end == [10, 40]


def test_a_wide_port_feeds_two_narrow_ones_at_full_speed() -> None:
    assert lanes((0, 1), (0, 2), bandwidths=[2, 1, 1], durations=[10, 40]).end == [10, 40]
    assert lanes((0, 1), (0, 2), bandwidths=[inf, 1, 1], durations=[10, 40]).end == [10, 40]


def test_what_one_cannot_use_the_others_have() -> None:
    """Port 0 carries 4; the lane through port 1 gets 1 of it (all it can), the other 3 of the 4 it has alone."""
    assert lanes((0, 1), (0, 2), bandwidths=[4, 1, 9], durations=[100, 30]).end == [100, 40]


def test_one_that_comes_later_slows_the_one_under_way() -> None:
    """Task 0 has the port alone until 10; then both have 10 left, at half speed."""
    given = job(
        [20, 10, 10],
        [(2, 1)],
        units=[LANE, LANE + 1, UNTIMED],
        lanes=[Lane(ports=(0, 1)), Lane(ports=(0, 2))],
        bandwidths=[1, 1, 1],
    )
    assert run(given) == Outcome([0, 10, 0], [30, 30, 10], 30, [])


def test_large_times_are_exact() -> None:
    assert run(job([10**18 + 1, 1])).finish == 10**18 + 2
