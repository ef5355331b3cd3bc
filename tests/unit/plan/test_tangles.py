"""Orders of tasks that send to each other: no counter waits for ever, and as little as that takes is changed."""

import pytest

from tests.graphs import SERVERS, WORKER, Builder
from tfwave.cost.network import Network
from tfwave.cost.uniform import uniform_costs
from tfwave.graph.transfer import find_transfers
from tfwave.graph.view import GraphView
from tfwave.order.deps import upstream_transfers
from tfwave.order.order import ranked_in_turn
from tfwave.planner import PlanRequest, make_plan
from tfwave.planner.tangles import untangled

ONE, OTHER = (f"/job:worker/replica:0/task:{task}/device:CPU:0" for task in range(2))


def there_and_back() -> GraphView:
    """`p` goes from the one to the other, and what becomes of it back; `q` goes the other way, and back."""
    build = Builder()
    for name, home, away in (("p", ONE, OTHER), ("q", OTHER, ONE)):
        build.const(home, name)
        build.op(away, f"{name}_there", [build.pair(name, home, away)])
        build.op(home, f"{name}_back", [build.pair(f"{name}_there", away, home)])
    return GraphView.of(*build.partitions.values())


@pytest.mark.parametrize(
    ("policy", "to_one", "to_other"),
    [
        ("fifo", ["q", "p_there"], ["p", "q_there"]),
        ("reverse", ["p_there", "q"], ["p", "q_there"]),
    ],
)
def test_a_transfer_goes_before_its_turn_where_counters_would_wait_for_each_other(
    policy: str, to_one: list[str], to_other: list[str]
) -> None:
    """Backwards, `q_there` would wait for `q`, `q` for `p_there`, that for `p`, and `p` for `q_there`."""
    view = there_and_back()
    plan = make_plan(view, find_transfers(view).data, Network(uniform_costs(view)), PlanRequest(policy))
    found = {order.channel.destination: [t.key.node for t in order.transfers] for order in plan.orders}
    assert found == {ONE: to_one, OTHER: to_other}


def test_an_order_of_which_nothing_waits_for_ever_is_as_it_was() -> None:
    """One after the other from two servers in turn."""
    build = Builder()
    for name, server in (("a", 0), ("b", 1), ("c", 0)):
        build.op(WORKER, f"use_{name}", [build.pair(name, SERVERS[server], WORKER, send=False)])
    view = GraphView.of(*build.partitions.values())
    transfers = find_transfers(view).data
    assert [t.key.node for t in transfers] == ["a", "b", "c"]
    order = ranked_in_turn(transfers)
    assert untangled([order], transfers, upstream_transfers(view, transfers)) == [order]
