"""How many steps a call makes, and in which blocks."""

from dataclasses import replace

import pytest

from tests.graphs import SERVERS, WORKER, Builder, by_name
from tfwave.cost.network import Network
from tfwave.graph.names import task_of
from tfwave.graph.transfer import find_transfers
from tfwave.graph.view import GraphView
from tfwave.order.bounds import flow_shop_floor
from tfwave.planner.overlap import (
    MOST_BYTES,
    MOST_NODES,
    Overlap,
    Sent,
    StepLoad,
    choose_overlap,
    choose_steps,
    step_load,
)

MB = 1 << 20


def even(seconds: float, largest: float = 1e-3) -> tuple[Sent, ...]:
    """Transfers that take so long in all, none longer than `largest`."""
    count = round(seconds / largest)
    return tuple(Sent(1000, seconds / count) for _ in range(count))


WIRE = StepLoad(0.0, even(1.0), even(1.0), nodes=100)
STEP = StepLoad(
    compute_seconds=0.0,
    pulls=(Sent(40 * MB, 0.4), Sent(10 * MB, 0.1), Sent(10 * MB, 0.1)),
    pushes=(Sent(40 * MB, 0.4), Sent(10 * MB, 0.1), Sent(10 * MB, 0.1)),
    nodes=1000,
)


@pytest.mark.parametrize("steps", [1, 2, 8])
def test_a_step_takes_what_the_flow_shop_takes(steps: int) -> None:
    assert STEP.seconds(steps) == pytest.approx(flow_shop_floor(steps, 0.6, 0.4))
    assert STEP.seconds(steps, 10 * MB) == pytest.approx(flow_shop_floor(steps, 0.6, 0.1))


@pytest.mark.parametrize("steps", [1, 2, 8])
def test_the_busier_direction_decides(steps: int) -> None:
    step = StepLoad(0.0, even(0.5, 0.05), even(0.4, 0.05), nodes=1)
    assert step.seconds(steps) == pytest.approx((0.5 + 0.4 + (steps - 1) * 0.55) / steps)


def test_a_fifth_of_the_shorter_of_computing_and_sending_shows() -> None:
    wire = STEP.seconds(32)
    assert replace(STEP, compute_seconds=5.0).seconds(32) == pytest.approx(5.0 + 0.2 * wire)
    assert replace(STEP, compute_seconds=0.4).seconds(32) == pytest.approx(wire + 0.08)


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (WIRE, 32),
        (replace(WIRE, pushes=()), 1),  # what only reads gains nothing
        (replace(WIRE, compute_seconds=20.0), 1),
        (replace(WIRE, compute_seconds=3.0), 2),
        (replace(WIRE, compute_seconds=1.9), 4),
        (replace(WIRE, compute_seconds=1.12), 8),
        (replace(WIRE, pulls=even(1.0, 1.0), pushes=even(1.0, 1.0)), 1),
        (replace(WIRE, nodes=MOST_NODES // 4), 4),
        (replace(WIRE, nodes=2 * MOST_NODES), 1),
        (replace(WIRE, pulls=(*WIRE.pulls, Sent(MOST_BYTES // 16, 0.0))), 8),
    ],
)
def test_the_fewest_steps_are_chosen_that_more_do_not_better(step: StepLoad, expected: int) -> None:
    assert choose_steps(step) == expected


def test_steps_that_wait_for_the_link_overlap_in_blocks() -> None:
    chosen = choose_overlap(STEP)
    assert chosen == Overlap(32, 1 * MB, STEP.seconds(32, 1 * MB), STEP.seconds(1))
    assert chosen.passes == "split_variables{max_bytes=1048576},cross_step{steps=32}"
    assert chosen.seconds < 0.55 * STEP.seconds(1)


def test_blocks_are_as_large_as_pays() -> None:
    chosen = choose_overlap(WIRE)
    assert chosen.block_bytes == 0
    assert chosen.passes == "cross_step{steps=32}"


def test_steps_that_compute_all_the_time_do_not_overlap() -> None:
    chosen = choose_overlap(replace(STEP, compute_seconds=20.0))
    assert chosen == Overlap(1, 0, pytest.approx(20.24), pytest.approx(20.24))
    assert chosen.passes == ""


def test_blocks_count_as_nodes() -> None:
    large = replace(
        WIRE, pulls=(Sent(1024 * MB, 1.0),), pushes=(Sent(1024 * MB, 1.0),), nodes=MOST_NODES // 8
    )
    assert (choose_steps(large, 8 * MB), choose_steps(large, MB)) == (4, 4)
    assert large.fits(4, 8 * MB)
    assert not large.fits(4, MB // 4)


def test_steps_of_which_a_server_serves_no_more_do_not_overlap() -> None:
    """Two workers, each by itself, whose pulls and pushes fill the card of their server in turn."""
    busy = replace(STEP, served=(0.625, 0.5), workers=2)
    assert choose_overlap(busy) == Overlap(1, 0, 1.25, 1.25)
    less = replace(STEP, served=(0.4, 0.3), workers=2)
    assert choose_overlap(less).seconds == 0.8


def test_replicas_of_one_graph_share_the_servers_card_in_each_direction() -> None:
    both = replace(STEP, served=(1.2, 1.2))
    assert both.seconds(1) == pytest.approx(2.4)
    assert both.seconds(4, 10 * MB) == pytest.approx(flow_shop_floor(4, 1.2, 0.1))


@pytest.mark.parametrize("workers", [1, 3])
def test_the_load_is_of_the_worker_in_both_directions_and_of_the_busiest_server(workers: int) -> None:
    """The first server sends one tensor of 3 s and receives one; the second sends two."""
    build = Builder()
    for server, name in ((0, "v"), (1, "w"), (1, "x")):
        build.const(SERVERS[server], name)
    pulled = [build.pair(name, SERVERS[server], WORKER) for server, name in ((0, "v"), (1, "w"), (1, "x"))]
    build.op(WORKER, "first", pulled)
    build.op(WORKER, "second", ["first"])
    build.op(SERVERS[0], "apply", [build.pair("second", WORKER, SERVERS[0])])
    view = GraphView.of(*build.partitions.values())
    transfers = [replace(t, bytes=10) for t in find_transfers(view).data]
    ops = dict.fromkeys(view.names, 0.0) | {"first": 1.0, "second": 1.0, "apply": 5.0}
    costs = by_name(view, ops, {t.node: 3.0 for t in transfers})
    load = step_load(view, task_of(WORKER), transfers, Network(costs), workers)
    assert load == StepLoad(2.0, (Sent(10, 3.0),) * 3, (Sent(10, 3.0),), len(view), (6.0, 0.0), workers)
