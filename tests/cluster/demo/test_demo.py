"""The demo from start to end, on small models: real servers, workers and links."""

import json

import pytest

from tfwave.bundle.bundle import load_bundle
from tfwave.demo.cluster import DemoJob
from tfwave.demo.model import Replicas
from tfwave.demo.network import NamespaceNetwork
from tfwave.demo.run import Blocks, run_demo
from tfwave.plan.io import load_plan
from tfwave.plan.match import check_match

BLOCKS = Blocks(repeats=1, steps=3)


def small(servers: int, workers: int, device: str) -> DemoJob:
    return DemoJob(servers, workers, 400e6, Replicas("MobileNet", image=64, batch=2, device=device))


@pytest.mark.parametrize(
    ("servers", "workers", "device"), [pytest.param(1, 2, "CPU:1", marks=pytest.mark.long), (2, 2, "CPU:0")]
)
def test_the_planned_order_is_kept_in_each_step_with_equal_results(servers, workers, device, short_path):
    out = short_path / "run"
    result = run_demo(small(servers, workers, device), BLOCKS, "tac", out, lambda text: None)
    ordered, unordered = result.conformance["ordered"], result.conformance["unordered"]
    assert ordered.exact
    assert ordered.steps == BLOCKS.steps * servers * workers
    assert (ordered.late, ordered.released) == (0, 0)
    assert unordered.exact_steps == 0
    assert unordered.inversion_share > 0.2
    assert result.outputs_equal
    assert result.live_steps == 0
    figures = result.figures["ordered"]
    assert figures.traced > 0
    assert -0.5 <= figures.efficiency_median <= figures.efficiency <= 1.1

    bundle = load_bundle(out / "bundle")
    plan = load_plan(out / "plan.json")
    check_match(plan, bundle.view, bundle.transfers)
    assert {o.channel.destination.partition("/device:")[2] for o in plan.orders} == {device}
    assert sum(len(o.transfers) for o in plan.orders) * BLOCKS.steps >= ordered.hand_offs
    assert json.loads((out / "figures.json").read_text())["conformance"]["ordered"]["exact"] is True
    assert "the planned order was kept" in (out / "report.md").read_text().lower()
    assert (out / "report.html").stat().st_size < 3e6
    events = json.loads((out / "trace.json").read_text())["traceEvents"]
    assert {e["pid"].split(":")[0] for e in events} == {"unordered", "ordered"}


@pytest.mark.long
def test_without_namespaces_the_hook_paces_the_link(short_path, monkeypatch):
    monkeypatch.setattr(NamespaceNetwork, "available", classmethod(lambda cls: "not root"))
    job = DemoJob(1, 1, 200e6, Replicas("MobileNet", image=64, batch=1))
    result = run_demo(job, BLOCKS, "tic", short_path / "run", lambda text: None)
    assert "not root" in result.network
    assert result.conformance["ordered"].exact
    sizes = sum(t.bytes for t in result.plan.transfers)
    assert result.figures["ordered"].median_seconds >= sizes / (200e6 / 8) * 0.9
