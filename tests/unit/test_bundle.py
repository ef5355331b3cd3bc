"""Bundles made by hand: what they hold, what they cost, and what is wrong with damaged ones."""

import pytest

from tests.graphs import SERVERS, WORKER, Builder
from tfwave.capture.bundle import Bundle, Manifest, StepSummary, load_bundle, missing_transfers, save_bundle
from tfwave.capture.costs import bundle_costs, channel_links, time_oracle
from tfwave.capture.plan import plan_bundle
from tfwave.capture.step_stats import transfer_records
from tfwave.cost.estimate import EstimateMissing
from tfwave.errors import BundleError, MissingCost
from tfwave.graph.names import Channel
from tfwave.proto.tensorflow_pb2 import GraphDef, StepStats
from tfwave.report.chrome import chrome_trace

PS = SERVERS[0]
CHANNEL = Channel(PS, WORKER)
MICROS_PER_BYTE = 0.01  # 100 MB/s
SIZES = {"w0": 400_000, "w1": 100, "w2": 1_000_000}


def graphs() -> tuple[GraphDef, ...]:
    build = Builder()
    previous: list[str] = []
    for i, name in enumerate(SIZES):
        weights = build.op(PS, name, [build.const(PS, f"c{i}")])
        previous = [build.op(WORKER, f"layer{i}", [*previous, build.pair(weights, PS, WORKER)])]
    return tuple(build.partitions.values())


def step(op_micros: int, arrivals: list[str]) -> StepStats:
    """Ops of `op_micros` each; transfers asked for at once, arriving one after another."""
    stats = StepStats()
    ops = stats.dev_stats.add(device=WORKER)
    for i in range(len(SIZES)):
        ops.node_stats.add(
            node_name=f"layer{i}",
            all_start_micros=1000,
            op_end_rel_micros=op_micros,
            all_end_rel_micros=op_micros,
        )
    transfers = stats.dev_stats.add(device=WORKER)
    end = 0.0
    for name in arrivals:
        end += SIZES[name] * MICROS_PER_BYTE
        edge = f"edge_{list(SIZES).index(name) + 1}_{name}"
        event = transfers.node_stats.add(
            node_name="RecvTensor", all_start_micros=1000, all_end_rel_micros=round(end)
        )
        event.timeline_label = f"[1B] [333.7Mb/s] {edge} from {PS} to {WORKER}"
        event.output.add().tensor_description.allocation_description.requested_bytes = SIZES[name]
    return stats


def bundle(*steps: StepStats) -> Bundle:
    parts = graphs()
    summaries = [StepSummary(seconds=0.5, missing_transfers=missing_transfers(parts, s)) for s in steps]
    manifest = Manifest(
        version=1,
        tfwave="0",
        tensorflow="2.21.0",
        target="grpc://x",
        devices=[PS, WORKER],
        fetches=["loss:0"],
        warmup_steps=2,
        steps=summaries,
    )
    return Bundle(manifest, parts, steps)


FULL = bundle(step(30, ["w0", "w1", "w2"]), step(20, ["w2", "w0", "w1"]))


def test_a_bundle_survives_its_directory(tmp_path):
    save_bundle(FULL, tmp_path / "b")
    loaded = load_bundle(tmp_path / "b")
    assert loaded == FULL
    assert [t.bytes for t in loaded.transfers.data] == list(SIZES.values())
    assert loaded.records == FULL.records


def test_lost_events_are_counted_and_never_guessed():
    lost = bundle(step(30, ["w0", "w1"]), step(30, ["w1", "w0"]))
    assert [s.missing_transfers for s in lost.manifest.steps] == [1, 1]
    with pytest.raises(MissingCost, match="not known"):
        plan_bundle(lost)
    costs = EstimateMissing(bundle_costs(lost), lost.view, lost.transfers.data)
    assert costs.estimated_transfers == 1
    assert costs.transfer_seconds(lost.transfers.data[2]) > 0


def test_ops_cost_the_fastest_run_and_the_link_is_recovered():
    oracle = time_oracle(FULL)
    node = FULL.view.names.index("layer0")
    assert oracle.op_seconds(FULL.view, node) == pytest.approx(20e-6)
    link = channel_links(FULL)[CHANNEL]
    assert link.bytes_per_second == pytest.approx(1e8, rel=0.01)
    assert link.latency_seconds == pytest.approx(0, abs=2e-6)
    assert link.relative_error < 0.01


def test_a_plan_follows_the_layers_and_names_its_costs():
    plan = plan_bundle(FULL)
    assert [t.key.node for t in plan.transfers] == ["w0", "w1", "w2"]
    assert [t.bytes for t in plan.transfers] == list(SIZES.values())
    assert (plan.costs.ops, plan.costs.transfers) == ("measured", "estimated")
    assert plan.predicted.lower_seconds <= plan.predicted.makespan_seconds <= plan.predicted.upper_seconds


def test_labels_that_are_no_transfers_are_passed_over():
    stats = step(10, ["w0"])
    stats.dev_stats[1].node_stats.add(node_name="RecvTensor", timeline_label="nonsense")
    stats.dev_stats[0].node_stats[0].timeline_label = "[1B] [1Mb/s] edge_9_x from a to b"
    assert [r.edge for r in transfer_records(stats)] == ["edge_1_w0"]


def test_the_trace_shows_ops_and_transfers():
    text = chrome_trace({"one": FULL.steps[0]})
    assert '"layer0"' in text
    assert '"edge_3_w2"' in text


def test_damaged_bundles_are_named(tmp_path):
    save_bundle(FULL, tmp_path / "b")
    graph = tmp_path / "b" / "graphs" / "000.pb"
    graph.write_bytes(graph.read_bytes()[:-3])
    with pytest.raises(BundleError, match=r"000\.pb.*damaged"):
        load_bundle(tmp_path / "b")
    save_bundle(FULL, tmp_path / "b")
    (tmp_path / "b" / "steps" / "001.pb").unlink()
    with pytest.raises(BundleError, match="holds 1 steps, but lists 2"):
        load_bundle(tmp_path / "b")
    manifest = tmp_path / "b" / "bundle.json"
    for text, message in [("{", "malformed"), ('{"version": 1}', "tfwave"), ("[]", "malformed")]:
        manifest.write_text(text)
        with pytest.raises(BundleError, match=message):
            load_bundle(tmp_path / "b")
    save_bundle(FULL, tmp_path / "b")
    manifest.write_text(manifest.read_text().replace('"version": 1', '"version": 9'))
    with pytest.raises(BundleError, match="version 9"):
        load_bundle(tmp_path / "b")
    with pytest.raises(BundleError, match="not a capture bundle"):
        load_bundle(tmp_path / "nosuch")
