"""The policies, case by case, and the bounds."""

from itertools import permutations
from math import inf

import pytest

from tests.graphs import SERVERS, WORKER, Builder, by_name
from tfwave.cost.table import Costs
from tfwave.cost.uniform import uniform_costs
from tfwave.errors import CostError, GraphError, MissingCost, PlanError, TfwaveError
from tfwave.graph.transfer import Transfer, find_transfers
from tfwave.graph.view import GraphView
from tfwave.order.bounds import Bounds, find_bounds
from tfwave.order.order import ranked_in_turn
from tfwave.order.registry import POLICY_NAMES, find_policy
from tfwave.order.tac import tac_sequence
from tfwave.sim.makespan import makespan

SERVER, OTHER = SERVERS[:2]


def layers(count: int) -> tuple[GraphView, tuple[Transfer, ...]]:
    """recv<i> (of w<i>) feeds op<i>, which also waits for op<i-1>."""
    build = Builder()
    for i in range(1, count + 1):
        recv = build.pair(f"w{i}", SERVER, WORKER, send=False)
        build.op(WORKER, f"op{i}", [recv] if i == 1 else [f"op{i - 1}", recv])
    view = GraphView.of(*build.partitions.values())
    return view, find_transfers(view).into(WORKER).data


def nodes(policy: str, view: GraphView, transfers: tuple[Transfer, ...], costs: Costs) -> list[str]:
    return [r.transfer.node for r in find_policy(policy)(view, transfers, costs)]


def each_takes(view: GraphView, op: float = 1.0) -> Costs:
    """So many seconds each op of `layers`, and one second each transfer."""
    return by_name(view, dict.fromkeys(view.names, op), dict.fromkeys(view.names, 1.0))


def test_erratum_2_the_scan_decides_what_the_comparator_cannot() -> None:
    """(P, M, M+) = (3,4,5) < (3,3,9) < (4,5,11) < (3,4,5): no least exists, the stated order decides."""
    p, m, helper = {"A": 3, "B": 3, "C": 4}, {"A": 4, "B": 3, "C": 5}, {"A": 1, "B": 6, "C": 6}
    first: dict[str, str] = {}
    for scan in permutations("ABC"):
        work = {1 << i: p[name] for i, name in enumerate(scan)}
        work |= {1 << i | 1 << (i + 3): 0 for i in range(3)}
        durations = [m[n] for n in scan] + [helper[n] for n in scan]
        first["".join(scan)] = scan[tac_sequence(work, durations, [0] * 6)[0]]
    assert first == {"ABC": "C", "ACB": "B", "BAC": "C", "BCA": "A", "CAB": "B", "CBA": "A"}


def test_equation_6_starts_what_computes_most_for_its_transfer() -> None:
    assert tac_sequence({0b01: 1, 0b10: 9}, [5, 5], [0, 0]) == [1, 0]
    assert tac_sequence({0b01: 9, 0b10: 9}, [5, 2], [0, 0]) == [1, 0]


def test_equal_gain_goes_by_impending_load_and_then_by_the_tie_rule() -> None:
    assert tac_sequence({0b1100: 1, 0b0011: 1}, [4, 4, 1, 1], [0] * 4) == [2, 3, 0, 1]
    assert tac_sequence({}, [1, 1, 1], [0] * 3) == [0, 1, 2]


def test_a_transfer_comes_after_what_it_depends_on() -> None:
    assert tac_sequence({0b10: 0, 0b11: 100}, [9, 1], [0b10, 0]) == [1, 0]


def test_tic_priority_is_the_number_of_transfers_until_an_op_can_run() -> None:
    view, transfers = layers(3)
    order = find_policy("tic")(view, transfers, uniform_costs(view))
    assert [(r.transfer.node, r.priority) for r in order] == [("recv1", 2.0), ("recv2", 2.0), ("recv3", 3.0)]


def test_tic_priority_is_infinite_where_no_op_needs_a_second_transfer() -> None:
    view, transfers = layers(1)
    assert [r.priority for r in find_policy("tic")(view, transfers, uniform_costs(view))] == [inf]


def test_baselines() -> None:
    view, transfers = layers(12)
    forward = [f"recv{i}" for i in range(1, 13)]
    assert nodes("fifo", view, transfers, each_takes(view)) == forward
    assert nodes("reverse", view, transfers, each_takes(view)) == forward[::-1]
    seeds = [find_policy("random", seed=s)(view, transfers, each_takes(view)) for s in (1, 1, 2)]
    assert seeds[0] == seeds[1] != seeds[2]
    assert [r.priority for r in seeds[0]] == [float(i) for i in range(12)]


@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_no_transfers_no_order(policy: str) -> None:
    build = Builder()
    build.const(WORKER, "x")
    view = GraphView.of(build.partitions[WORKER])
    assert find_policy(policy)(view, (), uniform_costs(view)) == ()
    assert makespan(view, (), by_name(view, {}, {})) == 0.0


@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_an_order_into_two_tasks_is_refused(policy: str) -> None:
    build = Builder()
    build.pair("a", SERVER, WORKER, send=False)
    build.pair("b", WORKER, SERVER, send=False)
    view = GraphView.of(*build.partitions.values())
    with pytest.raises(GraphError, match="one task"):
        find_policy(policy)(view, find_transfers(view).data, uniform_costs(view))


def test_tac_names_the_cost_it_lacks() -> None:
    view, transfers = layers(2)
    with pytest.raises(MissingCost, match="'op2'"):
        nodes("tac", view, transfers, by_name(view, {"op1": 1}, {"recv1": 1, "recv2": 1}))
    with pytest.raises(CostError, match="'op2'"):
        nodes("tac", view, transfers, by_name(view, {"op1": 1, "op2": -1}, {"recv1": 1, "recv2": 1}))


def test_an_unknown_policy_names_the_choices() -> None:
    with pytest.raises(TfwaveError, match="tic, tac, fifo, random, reverse"):
        find_policy("best")


def test_bounds_by_hand() -> None:
    view, transfers = layers(3)
    bounds = find_bounds(view, transfers, each_takes(view, 2.0))
    assert bounds == Bounds(9.0, 6.0)
    assert bounds.speedup == 0.5
    assert [bounds.efficiency(m) for m in (6.0, 7.5, 9.0)] == [1.0, 0.5, 0.0]


def test_bounds_count_each_channel_and_each_device() -> None:
    build = Builder()
    build.op(WORKER, "x", [build.pair("a", SERVER, WORKER, send=False)])
    build.op(WORKER, "y", [build.pair("b", OTHER, WORKER, send=False)])
    build.op(SERVER, "z", [build.pair("c", WORKER, SERVER, send=False)])
    build.const(OTHER, "elsewhere")
    view = GraphView.of(*build.partitions.values())
    costs = by_name(view, {"x": 1, "y": 1, "z": 7}, {"recv1": 5, "recv2": 6, "recv3": 1})
    data = find_transfers(view)
    assert find_bounds(view, data.into(WORKER).data, costs) == Bounds(13.0, 6.0)
    assert find_bounds(view, data.data, costs) == Bounds(21.0, 7.0)


def test_bounds_count_a_receive_once_and_an_op_without_a_device_to_the_only_one() -> None:
    build = Builder()
    build.op(WORKER, "x", [build.pair("a", SERVER, WORKER, send=False)])
    build.op(WORKER, "y", ["x"])
    build.partitions[WORKER].node[-1].device = ""
    view = GraphView.of(build.partitions[WORKER])
    assert find_bounds(view, find_transfers(view).data, each_takes(view)) == Bounds(3.0, 2.0)


def test_bounds_at_their_edges() -> None:
    assert Bounds(3.0, 3.0).efficiency(3.0) == 1.0
    assert Bounds(0.0, 0.0).speedup == 0.0
    assert Bounds(0.0, 0.0).efficiency(0.0) == 1.0


def test_makespan_by_hand() -> None:
    view, transfers = layers(3)
    order = ranked_in_turn(transfers)
    assert makespan(view, [r.transfer for r in order], each_takes(view)) == 4.0
    assert makespan(view, [r.transfer for r in order[::-1]], each_takes(view)) == 6.0


def test_makespan_refuses_an_order_that_waits_for_itself() -> None:
    build = Builder()
    first = build.pair("a", SERVER, WORKER, send=False)
    build.op(WORKER, "x", [first])
    build.op(WORKER, "y", [build.pair("b", SERVER, WORKER, send=False, waits=["x"])])
    view = GraphView.of(build.partitions[WORKER])
    transfers = find_transfers(view).data
    costs = by_name(view, {"x": 1, "y": 1}, {"recv1": 1, "recv2": 1})
    assert makespan(view, transfers, costs) == 4.0
    with pytest.raises(PlanError, match="'recv2' depends on a later one"):
        makespan(view, transfers[::-1], costs)


def test_makespan_passes_through_long_chains_elsewhere() -> None:
    build = Builder()
    build.const(SERVER, "s0")
    for i in range(1, 5000):
        build.op(SERVER, f"s{i}", [f"s{i - 1}"])
    build.op(WORKER, "x", [build.pair("s4999", SERVER, WORKER)])
    view = GraphView.of(*build.partitions.values())
    order = ranked_in_turn(find_transfers(view).into(WORKER).data)
    assert makespan(view, [r.transfer for r in order], by_name(view, {"x": 1}, {"recv1": 2})) == 3.0
