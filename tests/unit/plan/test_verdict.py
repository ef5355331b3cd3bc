"""What a forecast says of an order, and a plan of steps that overlap."""

from dataclasses import replace

import pytest

from tests.graphs import SERVERS, WORKER, Builder, by_name
from tfwave.cost.analytic import LinkModel
from tfwave.cost.network import Network
from tfwave.cost.table import Costs
from tfwave.errors import MissingCost
from tfwave.graph.transfer import Transfer, find_transfers
from tfwave.graph.view import GraphView
from tfwave.order.bounds import Bounds, Floor
from tfwave.plan.discipline import Discipline
from tfwave.plan.plan import Plan
from tfwave.planner import PlanRequest, make_plan
from tfwave.planner.forecast import Forecast, forecast
from tfwave.planner.verdict import judge
from tfwave.planner.workers import pulling_devices
from tfwave.proto.tensorflow_pb2 import GraphDef

SERVER = SERVERS[0]
OTHER = WORKER.replace("worker/replica:0/task:0", "worker/replica:0/task:1")


def forecast_of(ordered: float, *unordered: float, wire: float = 0.9, bound: float = 0.5) -> Forecast:
    return Forecast(ordered, unordered, wire, Bounds(1.0, bound, (Floor("pull then push", bound),)))


def test_a_gain_is_said_with_its_interval() -> None:
    said = judge(forecast_of(0.6, 0.9, 1.0, 1.1))
    assert said.is_gain
    assert (said.low, said.gain, said.high) == pytest.approx((1 / 3 - 0.03, 0.4, 5 / 11 + 0.03))
    assert said.text == "gain expected: 40% of the step (30% to 48%)"


def test_what_may_be_lost_is_no_gain() -> None:
    said = judge(forecast_of(0.98, 1.0))
    assert not said.is_gain
    assert said.text == "no gain expected: the order saves 2.0% of the step, less than forecasts are off"


@pytest.mark.parametrize("served", [0.0, 0.9])
def test_an_order_that_makes_steps_longer_is_said_to(served: float) -> None:
    """Whatever would make a gain small, and whoever else keeps a card busy."""
    said = judge(replace(forecast_of(1.2, 0.9, 1.0, 1.1, wire=0.06, bound=1.0), served_seconds=served))
    assert not said.is_gain
    assert said.low < said.gain < said.high < 0
    assert said.text.startswith("loss expected: 20% of the step (6% to ")


def test_an_idle_link_is_the_reason() -> None:
    said = judge(forecast_of(1.0, 1.0, wire=0.06))
    assert said.text == "no gain expected: the link is idle 94% of the step"


def test_a_step_at_its_bound_is_the_reason() -> None:
    said = judge(forecast_of(1.0, 1.01, bound=1.0))
    assert said.text == "no gain expected: without an order the step is at its bound (pull then push)"


def test_nothing_to_do_is_no_gain() -> None:
    assert not judge(forecast_of(0.0, 0.0, wire=0.0, bound=0.0)).is_gain


def test_workers_that_keep_a_servers_card_busy_gain_nothing() -> None:
    slower = replace(forecast_of(0.9, 1.0), served_seconds=0.81)
    assert judge(replace(slower, served_seconds=0.79)).is_gain
    said = judge(slower)
    assert not said.is_gain
    assert (said.low, said.gain, said.high) == pytest.approx((-0.03, 0.0, 0.13))
    assert said.text == "no gain expected: all workers together keep a server's card busy 81% of the step"


def pulled_and_used() -> tuple[GraphView, tuple[Transfer, ...], Costs]:
    """A worker pulls for 1 s, and computes for 1 s."""
    build = Builder()
    build.op(WORKER, "use", [build.pair(build.const(SERVER, "v"), SERVER, WORKER)])
    view = GraphView.of(*build.partitions.values())
    transfers = find_transfers(view).data
    costs = by_name(view, {**dict.fromkeys(view.names, 0.0), "use": 1.0}, {t.node: 1.0 for t in transfers})
    return view, transfers, costs


def test_no_step_is_shorter_than_what_a_server_has_to_do_for_all_workers() -> None:
    """One pulls for 1 s and computes for 1 s: in the 3 s that the server sends to three, each makes one step."""
    view, transfers, costs = pulled_and_used()
    seconds = [
        make_plan(view, transfers, Network(costs), PlanRequest("tac", workers=n)).predicted.unordered_seconds
        for n in (1, 2, 3)
    ]
    assert seconds == [2, 2, 3]


def test_the_bounds_of_a_makespan_are_of_the_times_that_it_is_made_of() -> None:
    """Two servers send for 1 s each to a worker, whose card would carry either in a tenth; then that computes."""
    build = Builder()
    arrived = [
        build.pair(build.const(server, name), server, WORKER)
        for server, name in zip(SERVERS, ("v", "w"), strict=False)
    ]
    build.op(WORKER, "use", arrived)
    view = GraphView.of(*build.partitions.values())
    transfers = find_transfers(view).data
    ops = {**dict.fromkeys(view.names, 0.0), "use": 1.0}
    given, on_card = (by_name(view, ops, {t.node: seconds for t in transfers}) for seconds in (1.0, 0.1))
    network = Network(given, LinkModel(0.0, 1e9), on_card=on_card)
    found = make_plan(view, transfers, network, PlanRequest("tac")).predicted
    assert (found.makespan_seconds, found.upper_seconds, found.lower_seconds) == (2, 3, 1)
    assert (found.efficiency, found.ordered_seconds) == (0.5, pytest.approx(1.2))


def test_steps_without_an_order_are_forecast_as_they_were_seen() -> None:
    """The op of 3 s needs `v`: it comes second in the one step, and first in the other."""
    build = Builder()
    arrived = [build.pair(build.const(SERVER, name), SERVER, WORKER) for name in ("v", "w")]
    build.op(WORKER, "last", [build.op(WORKER, "use", arrived[:1]), arrived[1]])
    view = GraphView.of(*build.partitions.values())
    v, w = sorted(find_transfers(view).data, key=lambda t: t.node)
    costs = by_name(view, {**dict.fromkeys(view.names, 0.0), "use": 3.0}, {v.node: 1.0, w.node: 1.0})
    seen = [{v.key: 0.2, w.key: 0.1}, {v.key: 0.1, w.key: 0.2}]
    found = make_plan(view, [v, w], Network(costs, seen=seen), PlanRequest("tac")).predicted
    assert (found.unordered_seconds, found.ordered_seconds) == (4.5, 4)


def test_no_step_is_shorter_than_what_the_cores_have_to_do() -> None:
    """They wait for a fifth of the second that is pulled, or, where two workers pull, for a fifth of that."""
    view, transfers, costs = pulled_and_used()
    networks = [Network(costs, machine_seconds=seconds) for seconds in (1.5, 2.5)]
    found = [make_plan(view, transfers, network, PlanRequest("tac")).predicted for network in networks]
    assert [(f.unordered_seconds, f.ordered_seconds) for f in found] == [(2, 2), (2.7, 2.7)]
    assert [networks[0].cores_seconds(carried) for carried in (1, 5)] == pytest.approx([1.7, 1.8])
    both = make_plan(view, transfers, networks[1], PlanRequest("tac", workers=2)).predicted
    assert both.ordered_seconds == pytest.approx(2.54)


def test_only_devices_with_an_order_need_known_ops() -> None:
    """Of the worker, which pulls in order, and of the server, which gets the gradient."""
    build = Builder()
    build.op(WORKER, "use", [build.pair(build.const(SERVER, "v"), SERVER, WORKER)])
    build.op(SERVER, "apply", [build.pair("use", WORKER, SERVER)])
    view = GraphView.of(*build.partitions.values())
    transfers = find_transfers(view).data
    sent = dict.fromkeys((t.node for t in transfers), 1.0)
    network = Network(by_name(view, {"use": 2.0}, sent))
    plan = make_plan(view, transfers, network, PlanRequest("tic"))
    assert plan.predicted.ordered_seconds == 4
    with pytest.raises(MissingCost, match="'use'"):
        forecast(view, transfers, Network(by_name(view, {"apply": 2.0}, sent)), plan.orders)


def test_workers_share_the_card_of_their_server() -> None:
    """Each of two pulls 1 s if it has the card to itself: 2 s in all, half of the card each."""
    build = Builder()
    for worker, name in ((WORKER, "a"), (OTHER, "b")):
        build.op(worker, f"use_{name}", [build.pair(build.const(SERVER, name), SERVER, worker)])
    view = GraphView.of(*build.partitions.values())
    transfers = find_transfers(view).data
    costs = by_name(view, dict.fromkeys(view.names, 0.0), dict.fromkeys((t.node for t in transfers), 1.0))
    cards = (None, LinkModel(0.0, 1e9))
    alone, shared = (make_plan(view, transfers, Network(costs, card), PlanRequest("tac")) for card in cards)
    assert alone.predicted.unordered_seconds == alone.predicted.bound_seconds == 1
    assert shared.predicted.unordered_seconds == shared.predicted.bound_seconds == 2
    assert alone.orders == shared.orders


def two_steps() -> tuple[GraphView, Costs]:
    """Two steps of two layers: each pulls v1 and v2, computes, pushes g2 and g1; the second waits for them."""
    build = Builder()
    seconds: dict[str, float] = {}
    transfers: dict[str, float] = {}
    update = {v: build.const(SERVER, f"{v}_0") for v in ("v1", "v2")}
    for step in (1, 2):
        pulled = {v: build.pair(update[v], SERVER, WORKER) for v in ("v1", "v2")}
        first = build.op(WORKER, f"forward1_{step}", [pulled["v1"]])
        second = build.op(WORKER, f"forward2_{step}", [first, pulled["v2"]])
        back2 = build.op(WORKER, f"back2_{step}", [second])
        back1 = build.op(WORKER, f"back1_{step}", [back2])
        pushed = {"v2": build.pair(back2, WORKER, SERVER), "v1": build.pair(back1, WORKER, SERVER)}
        update = {v: build.op(SERVER, f"{v}_{step}", [pushed[v]]) for v in ("v1", "v2")}
        seconds |= dict.fromkeys((first, second, back2, back1), 0.1)
        transfers |= dict.fromkeys((*pulled.values(), *pushed.values()), 1.0)
    view = GraphView.of(*build.partitions.values())
    ops = dict.fromkeys(view.names, 0.0) | seconds
    return view, by_name(view, ops, transfers)


def plan_of_two_steps(device: str | None = None) -> Plan:
    view, costs = two_steps()
    return make_plan(view, find_transfers(view).data, Network(costs), PlanRequest("tac", device=device))


def test_steps_that_overlap_go_by_priority_in_both_directions() -> None:
    plan = plan_of_two_steps()
    assert plan.policy == "urgency"
    assert {(o.channel.source, o.discipline, o.window_bytes > 0) for o in plan.orders} == {
        (SERVER, Discipline.PRIORITY, True),
        (WORKER, Discipline.PRIORITY, True),
    }
    pulls, pushes = plan.orders
    assert [t.key.node for t in pulls.transfers] == ["v1_0", "v2_0", "v1_1", "v2_1"]
    assert [t.key.node for t in pushes.transfers] == ["back1_1", "back2_1", "back2_2", "back1_2"]
    assert plan.predicted.bound_seconds <= plan.predicted.makespan_seconds < plan.predicted.upper_seconds


def test_one_device_goes_by_its_policy() -> None:
    plan = plan_of_two_steps(WORKER)
    assert plan.policy == "tac"
    assert [(o.channel.destination, o.discipline) for o in plan.orders] == [(WORKER, Discipline.COUNTER)]


def test_a_server_that_gets_a_scalar_at_once_is_no_worker() -> None:
    build = Builder()
    for server in SERVERS[:2]:
        build.partitions.setdefault(server, GraphDef()).node.add(
            name=f"v{server[-15]}", op="VarHandleOp", device=server
        )
    pulled = build.pair(build.const(SERVERS[0], "weight"), SERVERS[0], WORKER)
    rate = build.pair(build.const(SERVERS[0], "rate"), SERVERS[0], SERVERS[1])
    gradient = build.pair(build.op(WORKER, "back", [pulled]), WORKER, SERVERS[1])
    build.op(SERVERS[1], "update", [rate, gradient])
    view = GraphView.of(*build.partitions.values())
    assert pulling_devices(view, find_transfers(view).data) == {WORKER}


def test_what_servers_send_each_other_at_once_is_no_push_of_a_step() -> None:
    build = Builder()
    for server in SERVERS[:2]:
        build.partitions.setdefault(server, GraphDef()).node.add(
            name=f"v{server[-15]}", op="VarHandleOp", device=server
        )
    rate = build.pair(build.const(SERVERS[0], "rate"), SERVERS[0], SERVERS[1])
    pulled = [
        build.pair(build.const(SERVERS[0], "weight"), SERVERS[0], WORKER),
        build.pair(build.op(SERVERS[1], "scaled", [rate]), SERVERS[1], WORKER),
    ]
    build.op(WORKER, "forward", pulled)
    view = GraphView.of(*build.partitions.values())
    transfers = find_transfers(view).data
    costs = by_name(view, dict.fromkeys(view.names, 1.0), {t.node: 1.0 for t in transfers})
    assert make_plan(view, transfers, Network(costs), PlanRequest("tac")).policy == "tac"
