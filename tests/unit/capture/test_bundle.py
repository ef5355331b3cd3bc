"""Capture bundles, the costs that they tell, and what is planned from them."""

import copy
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.bundles import BYTES_PER_SECOND, LATENCY_SECONDS, SERVER, SIZES, small_bundle
from tests.graphs import WORKER
from tfwave.bundle.bundle import (
    Bundle,
    StepSummary,
    _load_messages,
    check_place,
    is_bundle,
    load_bundle,
    missing_transfers,
    save_bundle,
)
from tfwave.bundle.costs import bundle_costs, bundle_network, traced_costs
from tfwave.bundle.links import channel_links, service_seconds
from tfwave.bundle.step_stats import TransferRecord
from tfwave.cost.estimate import estimated
from tfwave.errors import BundleError, GraphError, MissingCost, PlanError
from tfwave.graph.names import Channel, task_of
from tfwave.graph.transfer import Transfer
from tfwave.plan.plan import Plan
from tfwave.planner import PlanRequest, make_plan
from tfwave.planner.captured import advise_overlap, plan_bundle
from tfwave.planner.overlap import Overlap
from tfwave.proto.tensorflow_pb2 import DeviceStepStats, StepStats

PULL = Channel(SERVER, WORKER)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    save_bundle(small_bundle(), tmp_path / "bundle")
    return tmp_path / "bundle"


def transfer(bundle: Bundle, name: str) -> Transfer:
    return next(t for t in bundle.transfers.data if t.key.node == name)


def planned(bundle: Bundle, device: str | None = None) -> Plan:
    request = PlanRequest("tac", device=device)
    return make_plan(bundle.view, bundle.transfers.data, bundle_network(bundle), request)


def test_a_bundle_reads_back(saved: Path) -> None:
    assert is_bundle(saved)
    assert load_bundle(saved) == small_bundle()


def test_the_own_step_is_kept_and_guarded(tmp_path: Path) -> None:
    bundle = replace(small_bundle(), own=small_bundle().graphs[0])
    save_bundle(bundle, tmp_path / "own")
    assert load_bundle(tmp_path / "own") == bundle
    (tmp_path / "own" / "own" / "000.pb").unlink()
    with pytest.raises(BundleError, match=r"own/own/000\.pb' is damaged or missing"):
        load_bundle(tmp_path / "own")


def test_a_place_may_be_a_string(tmp_path: Path) -> None:
    save_bundle(small_bundle(), f"{tmp_path}/captured")
    assert load_bundle(f"{tmp_path}/captured") == small_bundle()


def test_what_is_in_the_directory(saved: Path) -> None:
    files = sorted(str(f.relative_to(saved)) for f in saved.rglob("*") if f.is_file())
    assert files == [
        "SHA256SUMS",
        "bundle.json",
        "graphs/000.pb",
        "graphs/001.pb",
        "steps/000.pb",
        "steps/001.pb",
        "transfers.json",
    ]
    records = json.loads((saved / "transfers.json").read_text())
    assert len(records) == 8
    first = next(r for r in records if r["edge"] == "edge_1_v1")
    assert first == {
        "step": 0,
        "edge": "edge_1_v1",
        "channel": {"source": SERVER, "destination": WORKER},
        "bytes": 100,
        "start_seconds": 0.0,
        "end_seconds": pytest.approx(101e-6),
    }


def test_the_same_bundle_is_the_same_bytes(saved: Path, tmp_path: Path) -> None:
    save_bundle(load_bundle(saved), tmp_path / "again")
    for file in saved.rglob("*.*"):
        assert (tmp_path / "again" / file.relative_to(saved)).read_bytes() == file.read_bytes()


def test_a_thousand_steps_read_back_in_their_order(tmp_path: Path) -> None:
    names = ["000", "100", "101", "999", "1000", "1001"]
    steps = tuple(StepStats(dev_stats=[DeviceStepStats(device=name)]) for name in names)
    for name, step in zip(names, steps, strict=True):
        (tmp_path / f"{name}.pb").write_bytes(step.SerializeToString())
    assert _load_messages(tmp_path, StepStats) == steps


def test_saving_replaces_an_earlier_bundle(saved: Path) -> None:
    (saved / "stray").write_text("old")
    save_bundle(small_bundle(), saved)
    assert not (saved / "stray").exists()
    assert [p.name for p in saved.parent.iterdir()] == ["bundle"]


def test_a_directory_with_other_files_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("all of it")
    with pytest.raises(BundleError, match=f"'{tmp_path}' is a directory with other files, not a bundle"):
        save_bundle(small_bundle(), tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("name", ["file", "file/bundle", "file/deep/bundle"])
def test_a_place_that_cannot_be_written_is_refused_before_there_is_a_bundle(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(
        BundleError, match=f"cannot write '{tmp_path / name}': '{tmp_path / 'file'}' is a file"
    ):
        check_place(tmp_path / name)


def test_a_place_in_a_directory_of_others_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda folder, _: folder != tmp_path)
    for name in ("new", "deep/new"):
        with pytest.raises(BundleError, match=f"nothing can be made in '{tmp_path}'"):
            check_place(tmp_path / name)


def test_a_bundle_goes_where_a_link_leads(saved: Path, tmp_path: Path) -> None:
    link = tmp_path / "latest"
    link.symlink_to(saved)
    (saved / "stray").write_text("old")
    save_bundle(small_bundle(), link)
    assert link.is_symlink()
    assert not (saved / "stray").exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bundle", "latest"]


def test_transfers_have_the_bytes_that_were_traced() -> None:
    assert {t.key.node: t.bytes for t in small_bundle().transfers.data} == SIZES


def emptied(bundle: Bundle, steps: int) -> Bundle:
    """The same, but v1 had no bytes in the last `steps`, as what a branch that is not taken would send."""
    stats = copy.deepcopy(bundle.steps)
    for step in stats[len(stats) - steps :]:
        for event in (event for of_device in step.dev_stats for event in of_device.node_stats):
            if "edge_1_v1" in event.timeline_label:
                del event.output[:]
    return Bundle(bundle.manifest, bundle.graphs, stats)


def test_a_transfer_has_the_most_bytes_that_were_traced() -> None:
    assert {t.key.node: t.bytes for t in emptied(small_bundle(), 1).transfers.data} == SIZES


def test_a_transfer_that_brought_nothing_takes_what_it_took() -> None:
    bundle = emptied(small_bundle(), 2)
    empty = transfer(bundle, "v1")
    assert empty.bytes == 0
    assert bundle_costs(bundle).transfer_seconds(empty) == pytest.approx(101e-6)
    assert "v1" in [t.key.node for order in planned(bundle).orders for t in order.transfers]


def test_lost_events_are_counted() -> None:
    counts = [step.missing_transfers for step in small_bundle(lost=frozenset({"v2", "grad"})).manifest.steps]
    assert counts == [2, 2]


def test_the_median_of_the_steps() -> None:
    steps = [StepSummary(seconds=seconds, missing_transfers=0) for seconds in (0.03, 0.09, 0.01)]
    assert small_bundle().manifest.model_copy(update={"steps": steps}).median_seconds == 0.03


def test_lost_events_are_counted_step_by_step() -> None:
    whole, lossy = small_bundle(), small_bundle(lost=frozenset({"v3"}))
    assert missing_transfers(whole.graphs, [*whole.steps, *lossy.steps, StepStats()]) == [0, 0, 1, 1, 4]


@pytest.mark.parametrize("file", ["graphs/000.pb", "graphs/001.pb", "steps/000.pb", "steps/001.pb"])
def test_a_truncated_file_is_named(saved: Path, file: str) -> None:
    data = (saved / file).read_bytes()
    (saved / file).write_bytes(data[: len(data) // 2])
    with pytest.raises(BundleError, match=file):
        load_bundle(saved)


@pytest.mark.parametrize("file", ["graphs/000.pb", "steps/001.pb"])
def test_a_file_that_parses_but_has_changed_is_named(saved: Path, file: str) -> None:
    (saved / file).write_bytes((saved / file).read_bytes() * 2)
    with pytest.raises(BundleError, match=f"{file}' is damaged"):
        load_bundle(saved)


def test_a_missing_graph_is_named(saved: Path) -> None:
    (saved / "graphs/001.pb").unlink()
    with pytest.raises(BundleError, match=r"graphs/001\.pb' is damaged or missing"):
        load_bundle(saved)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"version": 2}, "is of version 2; this tfwave reads 1"),
        ({"version": "x"}, r"bundle\.json' is malformed: version"),
        ({"steps": [{"seconds": 1}]}, r"malformed: steps\.0\.missing_transfers"),
        ({"extra": 1}, "malformed: extra"),
        ({"steps": []}, "holds 2 steps, but lists 0"),
    ],
)
def test_a_manifest_that_does_not_fit_is_refused(saved: Path, change: dict[str, object], says: str) -> None:
    manifest = json.loads((saved / "bundle.json").read_text())
    (saved / "bundle.json").write_text(json.dumps(manifest | change))
    with pytest.raises(BundleError, match=says):
        load_bundle(saved)


def test_what_is_no_bundle_or_incomplete_is_refused(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"is not a capture bundle: bundle\.json: No such file"):
        load_bundle(tmp_path)
    (saved / "steps/001.pb").unlink()
    with pytest.raises(BundleError, match="holds 1 steps, but lists 2"):
        load_bundle(saved)
    for file in (saved / "graphs").iterdir():
        file.unlink()
    with pytest.raises(BundleError, match="has no graphs"):
        load_bundle(saved)


def test_an_op_costs_its_fastest_step() -> None:
    bundle = small_bundle()
    costs = traced_costs(bundle)
    seconds = {name: costs.op_seconds(bundle.view.names.index(name)) for name in ("a", "b", "grad", "apply")}
    assert seconds == pytest.approx({"a": 1e-3, "b": 1e-3, "grad": 1e-3, "apply": 1e-4})


def test_queueing_is_no_part_of_a_transfers_time() -> None:
    bundle = small_bundle()
    seconds = traced_costs(bundle).transfer_seconds(transfer(bundle, "v3"))
    assert seconds == pytest.approx(LATENCY_SECONDS + SIZES["v3"] / BYTES_PER_SECOND)


def test_the_fitted_link_is_the_one_that_was_there() -> None:
    link = channel_links(small_bundle().records)[PULL]
    assert link.bytes_per_second == pytest.approx(BYTES_PER_SECOND, rel=1e-3)
    assert link.latency_seconds == pytest.approx(LATENCY_SECONDS, rel=0.02)
    assert link.relative_error < 1e-3


def test_the_time_of_a_channel_is_that_in_which_anything_is_on_the_way() -> None:
    """`long` is on the way from 0 to 4; `short` passes it; the channel is idle from 5 to 6."""
    spans = {"long": (0.0, 4.0), "short": (1.0, 2.0), "behind": (3.0, 5.0), "late": (6.0, 7.0)}
    records = [TransferRecord(name, PULL, 100, *span) for name, span in spans.items()]
    other = TransferRecord("short", Channel(WORKER, SERVER), 100, 1.5, 1.75)
    found = {(r.channel, r.edge): seconds for r, seconds in service_seconds([other, *records])}
    assert found == {
        (PULL, "short"): 2.0,
        (PULL, "long"): 2.0,
        (PULL, "behind"): 1.0,
        (PULL, "late"): 1.0,
        (other.channel, "short"): 0.25,
    }


def test_a_transfer_without_events_has_no_cost_unless_estimated() -> None:
    bundle = small_bundle(lost=frozenset({"v2"}))
    costs, lost = bundle_costs(bundle), transfer(bundle, "v2")
    with pytest.raises(MissingCost, match=lost.node):
        costs.transfer_seconds(lost)
    filled = estimated(costs, bundle.transfers.data)
    assert filled.transfer_seconds(lost) > 0
    assert filled.source.transfers == "estimated"
    assert "1 of 4 transfers" in filled.source.detail


def test_only_devices_that_something_reaches_at_the_start_are_planned() -> None:
    assert [o.channel for o in planned(small_bundle()).orders] == [PULL]
    assert [t.key.node for t in planned(small_bundle()).transfers] == ["v1", "v2", "v3"]


def test_a_device_may_be_chosen() -> None:
    assert [o.channel for o in planned(small_bundle(), SERVER).orders] == [Channel(WORKER, SERVER)]
    with pytest.raises(GraphError, match=f"'/gone'; choose one of {SERVER}, {WORKER}"):
        planned(small_bundle(), "/gone")


def test_all_cards_are_like_the_one_that_moved_the_most() -> None:
    """The gradient took 600 us for its 50 kB; on a card that it has to itself it takes 500 us."""
    bundle = small_bundle()
    network, gradient = bundle_network(bundle), transfer(bundle, "grad")
    rate = network.cluster.nic_of(task_of(WORKER)).bytes_per_second
    assert rate == pytest.approx(BYTES_PER_SECOND, rel=0.01)
    assert bundle_costs(bundle).transfer_seconds(gradient) == pytest.approx(600e-6, rel=0.01)
    assert network.costs.transfer_seconds(gradient) == pytest.approx(SIZES["grad"] / rate, rel=0.01)


def test_what_overlaps_takes_the_cores_of_the_machine() -> None:
    """Two cores that work 76 ms for the median step leave no less than 38 ms, and then some: no gain over 40 ms.

    An untraced step tells better than traced ones, but not the very first, which took seconds.
    """
    bundle = small_bundle()
    worked = [
        s.model_copy(update={"core_seconds": c})
        for s, c in zip(bundle.manifest.steps, (0.08, 0.072), strict=True)
    ]
    manifest = bundle.manifest.model_copy(update={"steps": worked, "cores": 2})
    assert bundle.manifest.machine_seconds == 0
    assert manifest.machine_seconds == pytest.approx(0.038)
    untraced = [
        manifest.model_copy(update={"untraced_core_seconds": seconds}).machine_seconds
        for seconds in (0.06, 4.0)
    ]
    assert untraced == pytest.approx([0.03, 0.038])
    assert manifest.compute_share == pytest.approx(0.95)
    free, busy = (advise_overlap(b) for b in (bundle, replace(bundle, manifest=manifest)))
    assert free.seconds < 0.038 < free.single_seconds == 0.04
    assert busy == Overlap(1, 0, 0.04, 0.04)


def test_workers_by_themselves_share_what_a_server_can_send() -> None:
    alone, many = (advise_overlap(small_bundle(), workers) for workers in (1, 100))
    wire = sum(SIZES[name] for name in ("v1", "v2", "v3")) / BYTES_PER_SECOND
    assert many.seconds == pytest.approx(100 * wire, rel=0.02)
    assert (many.steps, many.passes) == (1, "")
    assert alone.seconds == pytest.approx(wire, rel=0.05)


@pytest.mark.parametrize("workers", [0, -1, 1.5, "2", None])
def test_what_no_workers_run_is_neither_planned_nor_advised_on(workers: Any) -> None:
    for call in (plan_bundle, advise_overlap):
        with pytest.raises(
            PlanError, match=f"workers={workers!r} cannot run a step each: give a whole number"
        ):
            call(small_bundle(), workers=workers)
