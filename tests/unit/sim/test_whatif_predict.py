"""Predictions against sums done by hand, on one chain of a worker and a server."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from tests.bundles import BYTES_PER_SECOND, LATENCY_SECONDS, SERVER, SIZES, small_bundle
from tests.graphs import WORKER, Builder, by_name
from tests.unit.balanced import traced
from tfwave.bundle.cards import card_of, traced_network
from tfwave.bundle.costs import bundle_costs, bundle_network
from tfwave.bundle.links import channel_links
from tfwave.bundle.step_stats import TransferRecord
from tfwave.errors import MissingCost, PlanError
from tfwave.graph.names import Channel
from tfwave.graph.transfer import find_transfers
from tfwave.graph.view import GraphView
from tfwave.plan.placement import Placement
from tfwave.plan.plan import Plan
from tfwave.planner import PlanRequest, make_plan
from tfwave.whatif.change import Change
from tfwave.whatif.predict import predict
from tfwave.whatif.subject import Subject, bundle_subject, graph_subject

OP, APPLY = 1e-3, 100e-6


@pytest.fixture(scope="module")
def subject() -> Subject:
    return bundle_subject(small_bundle(), "ps")


@pytest.fixture(scope="module")
def plan() -> Plan:
    """v1, v2, v3."""
    bundle = small_bundle()
    return make_plan(bundle.view, bundle.transfers.data, bundle_network(bundle), PlanRequest("fifo"))


def chain(bandwidth: float, latency: float, op: float, overheads: Callable[[str], float]) -> float:
    """v1, v2, v3 one after the other; a after v2, b after a and v3, grad after b, then apply on the server."""
    takes = {name: overheads(name) + size / bandwidth for name, size in SIZES.items()}
    second = takes["v1"] + takes["v2"]
    third = second + takes["v3"]
    b = max(second + latency + op, third + latency) + op
    return b + op + takes["grad"] + latency + APPLY


@pytest.mark.parametrize("latency", [0.0, 50e-6, 20e-3])
@pytest.mark.parametrize("bandwidth", [1e6, 1e8, 1e10, 1e12])
@pytest.mark.parametrize("scale", [1.0, 2.0, 0.25])
def test_a_chain_takes_what_its_parts_take(
    subject: Subject, plan: Plan, bandwidth: float, latency: float, scale: float
) -> None:
    def overhead(name: str) -> float:
        ends = (WORKER, SERVER) if name == "grad" else (SERVER, WORKER)
        return subject.network.overheads[Channel(*ends)]

    change = Change("", bandwidth, latency, batch_scale=scale)
    expected = chain(bandwidth, latency, OP * scale, overhead)
    assert predict(subject, change, plan).ordered_seconds == pytest.approx(expected, rel=1e-9)


def test_more_bandwidth_is_never_slower(subject: Subject, plan: Plan) -> None:
    steps = [predict(subject, Change("", 2.0**e * 1e6), plan) for e in range(12)]
    for slower, faster in pairwise(steps):
        assert faster.ordered_seconds <= slower.ordered_seconds


def test_the_figures_of_a_prediction(subject: Subject) -> None:
    found = predict(subject, Change(), PlanRequest("tac"))
    assert subject.captured_seconds == 0.04
    assert found.unordered_seconds == pytest.approx(sum(found.unordered) / 5)
    assert found.free.makespan_seconds == found.unordered[0]
    assert found.gain == 1 - found.ordered_seconds / found.unordered_seconds
    assert found.bound.seconds <= found.ordered_seconds <= max(found.unordered)
    assert found.compute_share == pytest.approx(3 * OP / found.ordered_seconds)
    wire = sum(found.loads.cards.values()) / 2
    assert wire == pytest.approx(sum(SIZES.values()) / BYTES_PER_SECOND + 4 * LATENCY_SECONDS, rel=0.1)
    assert (found.source.ops, found.source.transfers) == ("measured", "estimated")
    assert predict(subject, Change(batch_scale=2), PlanRequest("tac")).source.ops == "estimated"


def test_unordered_steps_differ_though_all_is_not_ready_at_one_instant() -> None:
    """The server reads one variable after the other; what is read meanwhile leaves in any order."""
    build = Builder()
    used = build.const(WORKER, "x")
    for name in (f"v{i}" for i in range(8)):
        build.op(SERVER, name, [build.const(SERVER, f"{name}/c")])
        used = build.op(WORKER, f"{name}/use", [used, build.pair(name, SERVER, WORKER)])
    graphs = tuple(build.partitions.values())
    found = predict(
        bundle_subject(traced(graphs, {f"v{i}": 100 for i in range(8)}), "ps"), Change(), PlanRequest("tac")
    )
    assert len(set(found.unordered)) > 1
    assert found.ordered_seconds <= min(found.unordered)


def test_copies_of_a_worker_keep_the_order_of_a_plan(subject: Subject) -> None:
    bundle = small_bundle()
    plan = make_plan(bundle.view, bundle.transfers.data, bundle_network(bundle), PlanRequest("reverse"))
    found = predict(subject, Change(workers=3), plan)
    for task in range(3):
        name = f"{SERVER} -> {WORKER.replace('task:0', f'task:{task}')}"
        left = [i.name.partition("@")[0] for i in found.ordered.intervals if i.resource == name]
        assert left == ["edge_3_v3", "edge_2_v2", "edge_1_v1"]


def test_a_plan_for_something_else_is_refused(subject: Subject, plan: Plan) -> None:
    other = GraphView.of(small_bundle().graphs[1])
    with pytest.raises(PlanError, match="another graph"):
        predict(replace(subject, view=other, transfers=find_transfers(other)), Change(), plan)
    with pytest.raises(PlanError, match="another graph"):
        predict(
            subject,
            Change(),
            replace(plan, orders=plan.orders[:0], graph=replace(plan.graph, fingerprint="")),
        )


def test_a_lost_transfer_is_estimated_and_said(plan: Plan) -> None:
    lossy = bundle_subject(small_bundle(lost=frozenset({"v2"})), "ps")
    for change in (Change(), Change(bandwidth=1e9)):
        assert "1 of 4 transfers" in predict(lossy, change, plan).source.detail


def test_a_plan_that_orders_nothing_is_refused_as_such(subject: Subject) -> None:
    with pytest.raises(PlanError, match="orders no transfers: make one that does with `tfwave plan BUNDLE"):
        predict(subject, Change(), Plan(placement=Placement(1, {"v1": 0})))


def test_bandwidth_needs_bytes(plan: Plan) -> None:
    bundle = small_bundle()
    bare = graph_subject(bundle.view, find_transfers(bundle.view), bundle_costs(bundle), "ps")
    with pytest.raises(MissingCost, match=r"the size of the transfer .* is not known: capture a run"):
        predict(bare, Change(bandwidth=1e9), plan)


SHARED = [
    TransferRecord(f"edge_{n}_v", channel, 1_000_000, 0.0, 0.01 * (n + 1))
    for n, channel in enumerate(
        [Channel(SERVER, WORKER), Channel(SERVER, WORKER.replace("task:0", "task:1"))] * 5
    )
]
"""100 MB/s leave the server, for two workers."""


def test_a_card_is_fitted_to_all_that_passes_it() -> None:
    card = card_of([SHARED, SHARED])
    assert card is not None
    assert card.bytes_per_second == pytest.approx(1e8)
    assert card.relative_error == pytest.approx(0)
    assert card_of([[replace(record, bytes=0) for record in SHARED]]) is None


def test_a_card_that_moved_little_tells_nothing() -> None:
    fast = TransferRecord("edge_9_v", Channel(SERVER.replace("task:0", "task:1"), SERVER), 1000, 0.0, 1e-6)
    card = card_of([[*SHARED, fast]])
    assert card is not None
    assert card.bytes_per_second == pytest.approx(1e8)


def test_empty_tensors_take_time_on_a_card() -> None:
    empty = [replace(r, edge=f"{r.edge}_empty", bytes=0, end_seconds=r.end_seconds - 0.004) for r in SHARED]
    card = card_of([[*SHARED, *empty]])
    assert card is not None
    assert card.bytes_per_second == pytest.approx(1e8)


def test_what_small_tensors_take_counts_once() -> None:
    """1 MB in 10 ms, then 1 kB in 1 ms, ten times: all that is in the 91 MB/s of the card already."""
    channel = Channel(SERVER, WORKER)
    ends = [0.011 * n + end for n in range(10) for end in (0.010, 0.011)]
    sizes = [1_000_000, 1_000] * 10
    traced = [
        TransferRecord(f"edge_{n}_v", channel, size, 0.0, end)
        for n, (size, end) in enumerate(zip(sizes, ends, strict=True))
    ]
    links = channel_links([traced])
    assert links[channel].latency_seconds == pytest.approx(0.001)
    nothing = by_name(small_bundle().view, {}, {})
    network = traced_network(nothing, links, (), [traced])
    assert network.card is not None
    assert network.card.bytes_per_second == pytest.approx(sum(sizes) / 0.11)
    assert network.overheads[channel] == pytest.approx(0, abs=1e-9)


def test_a_step_that_lost_arrivals_does_not_slow_a_card() -> None:
    card = card_of([SHARED[::3], SHARED])
    assert card is not None
    assert card.bytes_per_second == pytest.approx(1e8)
    assert card.relative_error > 0.1
