"""Floors by hand, the gap to the best of them, and the floor of overlapped steps."""

from collections.abc import Mapping

import numpy as np
import pytest

from tests.graphs import SERVERS, WORKER, Builder, by_name, pulls_of
from tfwave.cost.analytic import LinkModel
from tfwave.cost.cluster import Cluster
from tfwave.graph.names import task_of
from tfwave.graph.transfer import Transfer, find_transfers
from tfwave.graph.view import GraphView
from tfwave.order import floors as found_floors
from tfwave.order.bounds import Bounds, Floor, find_bounds, flow_shop_floor

SERVER = SERVERS[0]
OTHER = WORKER.replace("worker/replica:0/task:0", "worker/replica:0/task:1")


def floors(build: Builder, ops: Mapping[str, float], sent: Mapping[str, float]) -> dict[str, float]:
    view = GraphView.of(*build.partitions.values())
    found = find_bounds(view, find_transfers(view).data, by_name(view, ops, sent))
    return {floor.name: floor.seconds for floor in found.floors}


def test_a_row_of_ops_is_as_long_as_its_path() -> None:
    build = Builder()
    build.op(WORKER, "x", [build.pair("a", SERVER, WORKER, send=False)])
    build.op(WORKER, "y", ["x"])
    found = floors(build, {"x": 2, "y": 3}, {"recv1": 4})
    assert found == {"busiest resource": 5, "critical path": 9, "release times": 9, "pull then push": 9}


def test_a_channel_starts_with_its_least_head_and_ends_with_its_least_tail() -> None:
    """Two transfers of 4 s; what follows either takes 2 s or 3 s."""
    build = Builder()
    for name in ("a", "b"):
        build.op(WORKER, f"use_{name}", [build.pair(name, SERVER, WORKER, send=False)])
    found = floors(build, {"use_a": 3, "use_b": 2}, {"recv1": 4, "recv2": 4})
    assert found == {"busiest resource": 8, "critical path": 7, "release times": 10, "pull then push": 10}


def test_the_compute_waits_for_the_sum_of_what_an_op_needs_in_one_channel() -> None:
    build = Builder()
    recvs = [build.pair(name, SERVER, WORKER, send=False) for name in ("a", "b")]
    build.op(WORKER, "join", recvs)
    found = floors(build, {"join": 5}, {"recv1": 3, "recv2": 4})
    assert found == {"busiest resource": 7, "critical path": 9, "release times": 12, "pull then push": 12}


def test_channels_that_share_a_card_are_one_resource() -> None:
    """Each of two workers pulls 4 s and computes 1 s; the server sends at 1 byte/s, to whichever worker."""
    build = Builder()
    for worker, name in ((WORKER, "a"), (OTHER, "b")):
        build.op(worker, f"use_{name}", [build.pair(name, SERVER, worker, send=False)])
    view = GraphView.of(*build.partitions.values())
    transfers = find_transfers(view).data
    costs = by_name(view, {"use_a": 1, "use_b": 1}, dict.fromkeys((t.node for t in transfers), 4))
    shared = Cluster(nics={task_of(SERVER): LinkModel(0.0, 1.0)})
    assert find_bounds(view, transfers, costs).best.seconds == 5
    assert find_bounds(view, transfers, costs, shared).best == Floor("release times", 9)
    assert find_bounds(view, transfers, costs, shared).lower_seconds == 8


def step() -> Builder:
    """Two variables pulled, a loss of both, and two gradients pushed."""
    build = Builder()
    pulls = [build.pair(name, SERVER, WORKER, send=False) for name in ("a", "b")]
    build.op(WORKER, "loss", pulls)
    for name in ("a", "b"):
        build.op(WORKER, f"grad_{name}", ["loss"])
        build.op(SERVER, f"apply_{name}", [build.pair(f"grad_{name}", WORKER, SERVER)])
    return build


STEP_OPS = {"loss": 1.0, "grad_a": 0.0, "grad_b": 0.0, "apply_a": 0.0, "apply_b": 0.0}


def test_no_push_before_the_sum_of_the_pulls() -> None:
    """Pulls 3 + 4, the loss 1, pushes 3 + 4; one path has a single pull and push: 4 + 1 + 4."""
    found = floors(step(), STEP_OPS, {"recv1": 3, "recv2": 4, "recv3": 3, "recv4": 4})
    assert found["critical path"] == 9
    assert found["release times"] == 7 + 1 + 4
    assert found["pull then push"] == 7 + 1 + 7


def test_what_a_resource_has_yet_to_do_follows_a_transfer() -> None:
    """Each of two transfers is followed by both ops, which run one after the other."""
    build = Builder()
    recvs = [build.pair(name, SERVER, WORKER, send=False) for name in ("a", "b")]
    for name in ("x", "y"):
        build.op(WORKER, name, recvs)
    found = floors(build, {"x": 5, "y": 5}, {"recv1": 1, "recv2": 1})
    assert found["critical path"] == 6
    assert found["pull then push"] == 12


def test_nothing_has_floors_of_zero() -> None:
    build = Builder()
    build.const(WORKER, "x")
    view = GraphView.of(*build.partitions.values())
    bounds = find_bounds(view, (), by_name(view, {}, {}))
    assert {floor.seconds for floor in bounds.floors} == {0.0}
    assert bounds.gap(0.0) == 0.0


def test_the_best_floor_is_the_highest_and_of_equal_ones_the_first() -> None:
    first, second, third = Floor("a", 1.0), Floor("b", 2.0), Floor("c", 2.0)
    bounds = Bounds(9.0, 1.0, (first, second, third))
    assert bounds.best == second
    assert bounds.gap(3.0) == 0.5
    assert Bounds(9.0, 4.0).best == Floor("busiest resource", 4.0)
    assert bounds == Bounds(9.0, 1.0)


def test_flow_shop_floor_by_hand() -> None:
    assert flow_shop_floor(1, 3.0, 1.0) == 6.0
    assert flow_shop_floor(2, 3.0, 1.0) == 5.0
    assert flow_shop_floor(1000, 3.0, 0.0) == pytest.approx(3.0, rel=2e-3)


@pytest.mark.parametrize("wrong", [(0, 1.0, 1.0), (2, 1.0, 2.0), (2, 1.0, -1.0)])
def test_flow_shop_floor_refuses_what_is_no_step(wrong: tuple[int, float, float]) -> None:
    with pytest.raises(ValueError, match=r"steps do not overlap|cannot take longer"):
        flow_shop_floor(*wrong)


def test_floors_count_a_transfer_of_each_channel_apart() -> None:
    build = Builder()
    recvs = [build.pair(n, s, WORKER, send=False) for n, s in zip("ab", SERVERS, strict=False)]
    build.op(WORKER, "join", recvs)
    transfers: tuple[Transfer, ...] = find_transfers(GraphView.of(*build.partitions.values())).data
    assert len({t.channel for t in transfers}) == 2
    assert max(floors(build, {"join": 5}, {"recv1": 3, "recv2": 4}).values()) == 9


def test_of_many_channels_only_those_are_asked_that_an_op_or_transfer_waits_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each worker has a channel of its own."""
    asked = list[int]()

    def end(heads: np.ndarray, ticks: np.ndarray) -> int:
        asked.append(len(heads))
        return int((heads + ticks).max(initial=0))  # of one piece of work, or none

    monkeypatch.setattr(found_floors, "_end", end)
    counts = list[int]()
    for count in (4, 16):
        build = pulls_of(count)
        asked.clear()
        sent = dict.fromkeys((f"recv{number + 1}" for number in range(count)), 4.0)
        found = floors(build, {f"use{number}": 1 for number in range(count)}, sent)
        assert found["pull then push"] == 5
        assert set(asked) == {0, 1}
        counts.append(len(asked))
    assert counts[1] == 4 * counts[0]
