"""A step on a cluster, by hand: the model, the rules, the timeline and its trace."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf

import pytest

from tests.graphs import SERVERS, WORKER, Builder, by_name
from tfwave.cost.analytic import LinkModel
from tfwave.cost.cluster import Cluster, parse_bandwidth, parse_latency
from tfwave.errors import CostError, MissingCost, PlanError
from tfwave.graph.names import Channel
from tfwave.graph.transfer import Transfer, Transfers, find_transfers
from tfwave.graph.view import GraphView
from tfwave.plan.discipline import Discipline
from tfwave.sim.chrome import trace_text
from tfwave.sim.job import CompiledJob, compile_job
from tfwave.sim.makespan import makespan
from tfwave.sim.simulate import ChannelRule, ranks_of, simulate
from tfwave.sim.steps import Sending, simulate_steps
from tfwave.sim.timeline import Interval, Timeline

SERVER, OTHER = SERVERS[:2]
PULL, PUSH = Channel(SERVER, WORKER), Channel(WORKER, SERVER)
CARD = "/job:worker/replica:0/task:0"


def step() -> tuple[GraphView, Transfers]:
    """v1, v2 (of one server) -> a, b of the worker; both -> grad -> apply on the server."""
    build = Builder()
    for name in ("v1", "v2"):
        build.const(SERVER, name)
    build.op(WORKER, "a", [build.pair("v1", SERVER, WORKER)])
    build.op(WORKER, "b", [build.pair("v2", SERVER, WORKER)])
    build.op(WORKER, "grad", ["a", "b"])
    build.op(SERVER, "apply", [build.pair("grad", WORKER, SERVER)])
    view = GraphView.of(*build.partitions.values())
    found = find_transfers(view)
    return view, Transfers(tuple(replace(t, bytes=1000) for t in found.data), found.control)


OPS = {"a": 3, "b": 1, "grad": 2, "apply": 1}
SENT = {"recv1": 4, "recv2": 2, "recv3": 5}
COSTS = by_name(step()[0], OPS, SENT)


def rule(transfers: Transfers, channel: Channel, nodes: Sequence[str], kind: Discipline) -> ChannelRule:
    keys = {t.node: t.key for t in transfers.data}
    return ChannelRule(channel, kind, tuple(keys[node] for node in nodes))


def at(timeline: Timeline) -> Mapping[str, tuple[float, float]]:
    return {i.name: (i.begin_seconds, i.end_seconds) for i in timeline.intervals}


def test_a_step_in_an_order() -> None:
    view, transfers = step()
    rules = [rule(transfers, PULL, ["recv2", "recv1"], Discipline.COUNTER)]
    timeline = simulate(view, transfers, COSTS, Cluster(), rules)
    assert timeline.makespan_seconds == 17
    assert at(timeline) == {
        "edge_2_v2": (0, 2),
        "b": (2, 3),
        "edge_1_v1": (2, 6),
        "a": (6, 9),
        "grad": (9, 11),
        "edge_3_grad": (11, 16),
        "apply": (16, 17),
    }
    other = simulate(view, transfers, COSTS, Cluster(), [])
    assert at(other)["edge_1_v1"] == (0, 4)
    assert other.makespan_seconds == 16


def test_threads_are_per_device() -> None:
    view, transfers = step()
    transfers = Transfers((), ())
    one, two = (
        simulate(view, transfers, COSTS, Cluster(device_threads=threads), []) for threads in ({}, {WORKER: 2})
    )
    assert (one.makespan_seconds, two.makespan_seconds) == (7, 6)


def test_latency_comes_out_of_the_cost_and_lets_the_next_go() -> None:
    view, transfers = step()
    timeline = simulate(view, transfers, COSTS, Cluster(LinkModel(1.0, inf)), [])
    assert at(timeline)["edge_1_v1"] == (0, 3)
    assert at(timeline)["edge_2_v2"] == (3, 4)
    assert at(timeline)["a"] == (4, 7)
    assert at(timeline)["edge_3_grad"] == (10, 14)
    assert timeline.makespan_seconds == 16


def two_servers() -> tuple[GraphView, Transfers]:
    build = Builder()
    for name, server in (("v1", SERVER), ("v2", OTHER)):
        build.const(server, name)
        build.op(WORKER, f"use_{name}", [build.pair(name, server, WORKER)])
    view = GraphView.of(*build.partitions.values())
    return view, find_transfers(view)


def test_channels_share_the_card_of_the_worker() -> None:
    view, transfers = two_servers()
    costs = by_name(view, {"use_v1": 0, "use_v2": 0}, {"recv1": 2, "recv2": 6})
    apart = simulate(view, transfers, costs, Cluster(), [])
    shared = simulate(view, transfers, costs, Cluster(LinkModel(0, 1e9)), [])
    wide = simulate(view, transfers, costs, Cluster(LinkModel(0, 1e9), {CARD: LinkModel(0, 2e9)}), [])
    assert [t.makespan_seconds for t in (apart, shared, wide)] == [6, 8, 6]
    assert at(shared) == {"edge_1_v1": (0, 4), "edge_2_v2": (0, 8)}


def test_a_receive_asks_when_it_starts_and_one_without_a_sender_is_there_at_once() -> None:
    build = Builder()
    build.op(WORKER, "x", [build.pair("a", SERVER, WORKER, send=False)])
    build.op(WORKER, "y", [build.pair("b", OTHER, WORKER, send=False, waits=["x"])])
    view = GraphView.of(*build.partitions.values())
    costs = by_name(view, {"x": 1, "y": 1}, {"recv1": 2, "recv2": 4})
    assert at(simulate(view, find_transfers(view), costs, Cluster(), []))["edge_2_b"] == (3, 7)


def test_a_control_transfer_takes_latency_alone() -> None:
    build = Builder()
    build.const(SERVER, "c")
    build.op(SERVER, "slow", ["c"])
    build.op(WORKER, "after", ["^" + build.control_pair("slow", SERVER, WORKER)])
    view = GraphView.of(*build.partitions.values())
    costs = by_name(view, {"slow": 2, "read_recv1": 0}, {})
    transfers = find_transfers(view)
    assert not transfers.data
    timeline = simulate(view, transfers, costs, Cluster(LinkModel(0.5, 1.0)), [])
    assert [i.kind for i in timeline.intervals] == ["op", "control"]
    assert timeline.makespan_seconds == 2.5


def test_an_op_without_time_needs_no_thread() -> None:
    build = Builder()
    recv = build.pair("a", SERVER, WORKER, send=False)
    build.const(WORKER, "c")
    build.op(WORKER, "long", ["c"])
    build.op(WORKER, "free", [recv])
    build.op(SERVER, "push", [build.pair("free", WORKER, SERVER)])
    view = GraphView.of(*build.partitions.values())
    costs = by_name(view, {"long": 9, "free": 0, "push": 0}, {"recv1": 1, "recv2": 1})
    timeline = simulate(view, find_transfers(view), costs, Cluster(), [])
    assert at(timeline)["edge_2_free"] == (1, 2)


def compiled(kind: Discipline | None) -> CompiledJob:
    view, transfers = step()
    return compile_job(view, transfers, COSTS, Cluster(), {PULL: kind})


def test_one_compiled_job_under_many_ranks() -> None:
    job = compiled(Discipline.PRIORITY)
    nodes = [t.node for t in job.transfers.data]
    assert nodes == ["recv3", "recv1", "recv2"]
    assert [job.makespan(ranks) for ranks in ((0, 0, 1), (9, 7, -1.5), None)] == [16, 17, 16]
    with pytest.raises(PlanError, match="2 ranks were given for 3 transfers"):
        job.makespan([0, 1])


def test_with_one_channel_and_one_device_it_is_the_makespan() -> None:
    build = Builder()
    for i in range(1, 4):
        recv = build.pair(f"w{i}", SERVER, WORKER, send=False)
        build.op(WORKER, f"op{i}", [recv] if i == 1 else [f"op{i - 1}", recv])
    view = GraphView.of(*build.partitions.values())
    transfers = find_transfers(view)
    costs = by_name(view, {f"op{i}": 1.5 for i in (1, 2, 3)}, {f"recv{i}": 1.0 for i in (1, 2, 3)})
    rules = [ChannelRule(PULL, Discipline.COUNTER, tuple(t.key for t in transfers.data))]
    assert simulate(view, transfers, costs, Cluster(), rules).makespan_seconds == makespan(
        view, transfers.data, costs
    )


def test_an_order_that_waits_for_itself() -> None:
    build = Builder()
    build.op(WORKER, "x", [build.pair("a", SERVER, WORKER, send=False)])
    build.op(WORKER, "y", [build.pair("b", SERVER, WORKER, send=False, waits=["x"])])
    view = GraphView.of(*build.partitions.values())
    transfers = find_transfers(view)
    costs = by_name(view, {"x": 1, "y": 1}, {"recv1": 1, "recv2": 1})
    keys = tuple(t.key for t in transfers.data)[::-1]
    with pytest.raises(PlanError, match="the transfer into 'recv2' depends on a later one"):
        simulate(view, transfers, costs, Cluster(), [ChannelRule(PULL, Discipline.COUNTER, keys)])
    late = simulate(view, transfers, costs, Cluster(), [ChannelRule(PULL, Discipline.PRIORITY, keys)])
    assert late.makespan_seconds == 4


def test_a_step_under_a_counter_beside_stock_ones_that_idle_no_link() -> None:
    """`late` is ready after 5 s; by the counter `early` waits for it, while stock TensorFlow sends it at once."""
    build = Builder()
    for name in ("early", "late"):
        build.op(SERVER, name, [build.const(SERVER, f"c_{name}")])
        build.pair(name, SERVER, WORKER)
    view = GraphView.of(*build.partitions.values())
    transfers = find_transfers(view)
    costs = by_name(view, {"early": 0, "late": 5}, {"recv1": 1, "recv2": 1})
    first_late = [t.key.node == "early" for t in transfers.data]
    sending = Sending({PULL: Discipline.COUNTER}, first_late)
    found = simulate_steps(transfers, costs, Cluster(), sending, [[0, 1], [1, 0]])
    assert (found.ordered.seconds, found.unordered) == (7, (6, 6))
    assert (found.ordered.timeline.makespan_seconds, found.free.timeline.makespan_seconds) == (7, 6)


def test_rules_must_fit_the_graph() -> None:
    view, transfers = step()
    whole = rule(transfers, PULL, ["recv1", "recv2"], Discipline.COUNTER)
    pushed = transfers.data[0].key
    for rules, message in (
        ([whole, whole], "two rules were given for the channel"),
        ([replace(whole, order=whole.order[:1])], "lacks v2:0"),
        ([replace(whole, order=(*whole.order, pushed))], "does not have: grad:0"),
        ([replace(whole, order=(*whole.order, whole.order[0]))], "lists a transfer twice"),
    ):
        with pytest.raises(PlanError, match=message):
            simulate(view, transfers, COSTS, Cluster(), rules)


def test_costs_that_are_missing_or_none() -> None:
    view, transfers = step()
    with pytest.raises(MissingCost, match="'recv3'"):
        simulate(view, transfers, by_name(view, OPS, {"recv1": 1, "recv2": 1}), Cluster(), [])
    with pytest.raises(CostError, match="'a'"):
        simulate(view, transfers, by_name(view, {**OPS, "a": -1}, SENT), Cluster(), [])
    with pytest.raises(CostError, match="0 threads"):
        Cluster(threads=0)


def test_a_loop_waits_for_what_enters_it_and_not_for_what_comes_back() -> None:
    build = Builder()
    build.const(WORKER, "c")
    build.op(WORKER, "slow", ["c"])
    for name, op, inputs in (
        ("enter", "Enter", ["slow"]),
        ("merge", "Merge", ["enter", "next"]),
        ("next", "NextIteration", ["c"]),
    ):
        build.partitions[WORKER].node.add(name=name, op=op, device=WORKER, input=inputs)
    view = GraphView.of(*build.partitions.values())
    costs = by_name(view, {"slow": 5, "enter": 0, "next": 1, "merge": 1}, {})
    timeline = simulate(view, Transfers((), ()), costs, Cluster(threads=2), [])
    assert at(timeline)["merge"] == (5, 6)


def test_a_trace_has_a_row_for_each_that_runs_at_one_time() -> None:
    intervals = tuple(
        sorted(Interval(b, e, "cpu", f"op{b}", "op", 7 * b) for b, e in ((0, 4), (1, 2), (2, 3), (3, 5)))
    )
    timeline = Timeline(intervals, 5.0, {"cpu": 2})
    trace = json.loads(trace_text(timeline.chrome_events("simulated")))
    assert [(e["tid"], e["ts"], e["dur"]) for e in trace["traceEvents"]] == [
        (0, 0, 4e6),
        (1, 1e6, 1e6),
        (1, 2e6, 1e6),
        (1, 3e6, 2e6),
    ]
    assert {e["pid"] for e in trace["traceEvents"]} == {"simulated: cpu"}
    assert [e.get("args") for e in trace["traceEvents"]] == [None, {"bytes": 7}, {"bytes": 14}, {"bytes": 21}]


@pytest.mark.parametrize(
    ("text", "bytes_per_second"),
    [("10gbit", 1.25e9), ("100 Mbit", 1.25e7), ("2.5kbit", 312.5), ("8bit", 1.0), ("1tbit", 1.25e11)],
)
def test_bandwidths(text: str, bytes_per_second: float) -> None:
    assert parse_bandwidth(text) == bytes_per_second


@pytest.mark.parametrize(
    ("text", "seconds"), [("50us", 50e-6), ("1.5ms", 1.5e-3), ("2 s", 2.0), ("7ns", 7e-9), ("0", 0.0)]
)
def test_latencies(text: str, seconds: float) -> None:
    assert parse_latency(text) == pytest.approx(seconds, rel=1e-15)


@pytest.mark.parametrize(
    "text", ["", "10", "gbit", "-1gbit", "1e3mbit", "10GB", "10 gbit/s", "9" * 400 + "bit"]
)
def test_what_is_no_bandwidth(text: str) -> None:
    with pytest.raises(CostError, match="is malformed: write it as 10gbit"):
        parse_bandwidth(text)


@pytest.mark.parametrize("text", ["", "5", "us", "-1us", "1 min", "5µs"])
def test_what_is_no_latency(text: str) -> None:
    with pytest.raises(CostError, match="is malformed: write it as 50us"):
        parse_latency(text)


def test_the_rules_of_many_channels_are_read_without_a_look_at_all_transfers_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    build = Builder()
    for number in range(8):
        worker = WORKER.replace("task:0", f"task:{number}")
        build.op(worker, f"use{number}", [build.pair(f"v{number}", SERVER, worker, send=False)])
    transfers = find_transfers(GraphView.of(*build.partitions.values())).data
    rules = [ChannelRule(t.channel, Discipline.COUNTER, (t.key,)) for t in transfers]
    looked = list[Transfer]()
    monkeypatch.setattr(Transfer, "channel", property(lambda t: looked.append(t) or t.key.channel))
    assert ranks_of(transfers, rules) == [0] * 8
    assert len(looked) <= len(transfers)


def test_intervals_are_sorted_without_comparing_them_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = list[Interval]()
    monkeypatch.setattr(Interval, "__lt__", lambda one, other: compared.append(one))
    view, transfers = step()
    found = simulate(view, transfers, COSTS, Cluster(), [])
    assert [interval.begin_seconds for interval in found.intervals] == sorted(
        interval.begin_seconds for interval in found.intervals
    )
    assert list(found.chrome_events("a step"))
    assert not compared
