"""How many steps a call makes, and in which blocks."""

from dataclasses import replace

import pytest

from tfwave.order.bounds import flow_shop_floor
from tfwave.planner.overlap import MOST_NODES, Overlap, StepFigures, choose_overlap, choose_steps

MB = 1 << 20
STEP = StepFigures(
    compute_seconds=0.1,
    pulls=(40 * MB, 10 * MB, 10 * MB),
    pushes=(40 * MB, 10 * MB, 10 * MB),
    transfer_seconds=0.0,
    bytes_per_second=100 * MB,
    nodes=1000,
)


@pytest.mark.parametrize("steps", [1, 2, 8])
def test_a_step_takes_what_the_flow_shop_takes(steps: int) -> None:
    assert STEP.seconds(steps) == pytest.approx(flow_shop_floor(steps, 0.6, 0.4))
    assert STEP.seconds(steps, 10 * MB) == pytest.approx(flow_shop_floor(steps, 0.6, 0.1))


def test_a_step_never_takes_less_than_its_computing() -> None:
    assert replace(STEP, compute_seconds=5.0).seconds(32) == 5.0


def test_each_block_costs_a_transfer() -> None:
    slow = replace(STEP, transfer_seconds=0.01)
    whole = (2 * (0.6 + 0.03) + (0.6 + 0.03 + 0.4 + 0.01)) / 2
    assert slow.seconds(2) == pytest.approx(whole)
    blocks = (2 * (0.6 + 0.06) + (0.6 + 0.06 + 0.1 + 0.01)) / 2
    assert slow.seconds(2, 10 * MB) == pytest.approx(blocks)


def test_steps_that_wait_for_the_link_overlap_in_blocks() -> None:
    chosen = choose_overlap(STEP)
    assert chosen == Overlap(32, 2 * MB, STEP.seconds(32, 2 * MB))
    assert chosen.passes == "split_variables{max_bytes=2097152},cross_step{steps=32}"
    assert chosen.seconds < 0.56 * STEP.seconds(1)


def test_blocks_are_as_large_as_pays() -> None:
    even = replace(STEP, pulls=(1 * MB,) * 60, pushes=(1 * MB,) * 60)
    chosen = choose_overlap(even)
    assert chosen.block_bytes == 0
    assert chosen.passes == f"cross_step{{steps={chosen.steps}}}"


def test_steps_that_compute_all_the_time_do_not_overlap() -> None:
    chosen = choose_overlap(replace(STEP, compute_seconds=2.0))
    assert chosen == Overlap(1, 0, 2.0)
    assert chosen.passes == ""


def test_a_call_stays_within_what_servers_keep() -> None:
    assert choose_steps(replace(STEP, nodes=MOST_NODES // 4)) == 4
    assert choose_steps(replace(STEP, nodes=2 * MOST_NODES)) == 1
    large = replace(STEP, pulls=(1024 * MB,), pushes=(1024 * MB,))
    assert choose_steps(large, MB) == 4
