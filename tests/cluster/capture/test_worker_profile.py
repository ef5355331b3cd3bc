"""Tracing the stock servers of a TF 2 job: kernels, transfers and functions of both ends of each step."""

import json
from collections import Counter
from dataclasses import dataclass

import pytest

from tests.cluster.capture.traced_chief import LAYERS, STEPS
from tests.cluster.cluster import free_addresses, serving, start
from tests.cluster.job import run_chief
from tfwave.graph.names import Channel, edge_source
from tfwave.runtime.trace.xplane import Trace, WireRun, op_samples, read_trace

pytestmark = pytest.mark.tensorflow

WORKER = "/job:worker/replica:0/task:0/device:CPU:0"
PS = "/job:ps/replica:0/task:0/device:CPU:0"


@dataclass(frozen=True)
class Traced:
    worker: Trace
    ps: Trace
    small: str
    large: str


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Traced:
    folder = tmp_path_factory.mktemp("traces")
    chief, ps, worker = free_addresses(3)
    spec = {"chief": [chief], "ps": [ps], "worker": [worker]}
    with serving(*(start(spec, job, [0], None) for job in ("ps", "worker"))):
        names: dict[str, str] = run_chief("tests.cluster.capture.traced_chief", json.dumps(spec), str(folder))
    found = {job: read_trace((folder / job).read_bytes()) for job in ("worker", "ps")}
    return Traced(**found, **names)


def test_both_ends_know_each_step_and_its_function(traced: Traced) -> None:
    assert Counter(traced.worker.functions.values()) == {traced.small: STEPS, traced.large: STEPS}
    assert traced.ps.functions == traced.worker.functions


def test_kernels_of_two_functions(traced: Traced) -> None:
    small = op_samples(traced.worker, traced.small)
    large = op_samples(traced.worker, traced.large)
    products = ["product", *(f"product_{i}" for i in range(1, LAYERS))]
    for name in products:
        assert len(small[name]) == len(large[name]) == STEPS
        assert min(large[name]) > 2 * min(small[name])
    updates = op_samples(traced.ps, traced.large)
    assigned = [len(seconds) for name, seconds in updates.items() if name.startswith("AssignSub")]
    assert assigned == [STEPS] * LAYERS


def test_each_transfer_of_each_step(traced: Traced) -> None:
    """Parameters one way, gradients the other: sent, then there."""
    pulls = _by_wire(traced.worker.receives, Channel(PS, WORKER))
    pushes = _by_wire(traced.ps.receives, Channel(WORKER, PS))
    assert sum("ReadVariableOp" in edge_source(edge) for _, edge in pulls) == 2 * STEPS * LAYERS
    assert len(pushes) == 2 * STEPS * LAYERS
    sends = _by_wire(traced.ps.sends, Channel(PS, WORKER)) | _by_wire(
        traced.worker.sends, Channel(WORKER, PS)
    )
    for wire, received in (pulls | pushes).items():
        begin, end = (traced.ps, traced.worker) if wire in pulls else (traced.worker, traced.ps)
        sent = begin.begin_nanos + sends[wire].start_seconds * 1e9
        assert received.start_seconds < received.end_seconds
        assert sent < end.begin_nanos + received.end_seconds * 1e9


def _by_wire(runs: tuple[WireRun, ...], channel: Channel) -> dict[tuple[int, str], WireRun]:
    found = {(run.step, run.edge): run for run in runs if run.channel == channel}
    assert len(found) == len(runs)
    return found
