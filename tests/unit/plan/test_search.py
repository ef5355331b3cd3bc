"""The policies `search` and `exact` and the ranks of urgency, case by case."""

import pytest

from tests.graphs import SERVERS, WORKER, Builder, by_name
from tfwave.cost.table import Costs
from tfwave.errors import TfwaveError
from tfwave.graph.names import Channel
from tfwave.graph.transfer import find_transfers
from tfwave.graph.view import GraphView
from tfwave.order import branch, search
from tfwave.order.exact import LARGEST
from tfwave.order.registry import find_policy
from tfwave.order.urgency import by_urgency
from tfwave.sim.makespan import makespan

SERVER = SERVERS[0]


def joins(sizes: dict[str, float], ops: dict[str, tuple[float, str]]) -> tuple[GraphView, Costs]:
    """Parameters by name, and ops that need the parameters spelled by a string."""
    build = Builder()
    recv = {name: build.pair(name, SERVER, WORKER, send=False) for name in sizes}
    for name, (_, needs) in ops.items():
        build.op(WORKER, name, [recv[n] for n in needs])
    view = GraphView.of(*build.partitions.values())
    return view, by_name(view, {n: s for n, (s, _) in ops.items()}, {recv[n]: s for n, s in sizes.items()})


def seconds(policy: str, view: GraphView, costs: Costs) -> float:
    order = find_policy(policy)(view, find_transfers(view).data, costs)
    return makespan(view, [ranked.transfer for ranked in order], costs)


TWO_PAIRS = joins({"a": 2, "b": 3, "c": 2}, {"cheap": (1, "ac"), "dear": (2, "bc")})
"""No single transfer starts any op: TAC sees only which pair arrives first, not what it starts."""


@pytest.mark.parametrize("policy", ["search", "exact"])
def test_finds_what_the_simple_policies_do_not_see(policy: str) -> None:
    view, costs = TWO_PAIRS
    assert seconds(policy, view, costs) == 8
    assert [seconds(p, view, costs) for p in ("tac", "tic", "fifo")] == [9, 10, 10]


def many(count: int) -> tuple[GraphView, Costs]:
    names = [f"v{i}" for i in range(count)]
    build = Builder()
    for i, name in enumerate(names):
        build.op(WORKER, f"op{i}", [build.pair(name, SERVER, WORKER, send=False)])
    view = GraphView.of(*build.partitions.values())
    return view, by_name(
        view, {f"op{i}": 1.0 for i in range(count)}, {f"recv{i}": 1.0 for i in range(1, count + 1)}
    )


def test_exact_says_its_limit_and_the_way_out() -> None:
    view, costs = many(LARGEST + 1)
    with pytest.raises(
        TfwaveError, match=f"at most {LARGEST} transfers, and here are {LARGEST + 1}.*'search'"
    ):
        seconds("exact", view, costs)


def test_exact_gives_up_on_too_many_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    build = Builder()
    first = build.pair("first", SERVER, WORKER, send=False)
    build.op(WORKER, "x", [first])
    for i in range(6):
        build.op(
            WORKER, f"y{i}", [build.pair(f"v{i}", SERVER, WORKER, send=False, waits=["x"] if i % 2 else [])]
        )
    view = GraphView.of(*build.partitions.values())
    costs = by_name(
        view, {"x": 5.0} | {f"y{i}": 3.0 + i for i in range(6)}, {f"recv{i}": 1.0 + i for i in range(1, 8)}
    )
    monkeypatch.setattr(branch, "STATES", 2)
    with pytest.raises(TfwaveError, match=r"told 2 cases apart.*'search'"):
        seconds("exact", view, costs)


def test_search_spends_no_more_than_its_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    view, costs = TWO_PAIRS
    monkeypatch.setattr(search, "BUDGET", 0)
    assert seconds("search", view, costs) == min(seconds(p, view, costs) for p in ("tac", "tic", "fifo"))


def test_urgency_is_what_has_yet_to_be_computed() -> None:
    """From the pull of a: 2 + 4 = 6; of b: 7 + 0 = 7. With what is sent on the way a's were longer: 16 and 11."""
    build = Builder()
    for name in ("a", "b"):
        build.op(SERVER, name, [build.const(SERVER, f"c_{name}")])
        build.op(WORKER, f"use_{name}", [build.pair(name, SERVER, WORKER)])
        build.op(SERVER, f"apply_{name}", [build.pair(f"use_{name}", WORKER, SERVER)])
    view = GraphView.of(*build.partitions.values())
    costs = by_name(
        view,
        {"a": 50, "b": 0, "use_a": 2, "use_b": 7, "apply_a": 4, "apply_b": 0},
        {"recv1": 1, "recv2": 9, "recv3": 1, "recv4": 3},
    )
    ranks = {
        channel: [(r.transfer.node, r.priority) for r in order]
        for channel, order in by_urgency(view, find_transfers(view).data, costs).items()
    }
    assert ranks == {
        Channel(SERVER, WORKER): [("recv3", 0.0), ("recv1", 1.0)],
        Channel(WORKER, SERVER): [("recv2", 2.0), ("recv4", 3.0)],
    }


def test_equal_urgency_keeps_the_tie_rule() -> None:
    view, costs = many(12)
    (order,) = by_urgency(view, find_transfers(view).data, costs).values()
    assert [r.transfer.node for r in order] == [f"recv{i}" for i in range(1, 13)]


def test_no_transfers_no_channels() -> None:
    view, costs = many(1)
    assert by_urgency(view, (), costs) == {}
