"""Waves over the replicas of a MirroredStrategy compute what twice the replicas do, or what Eq. 1 says."""

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from tests.events import told_events
from tests.full import each
from tests.numerics.corpus.sample import Array
from tests.numerics.waves.waves import Replica, Values, batches, gradient_of, mean
from tfwave.proto.tensorflow_pb2 import GraphDef
from tfwave.rewrite.waves.names import wave_name

pytestmark = pytest.mark.tensorflow

ROOT = Path(__file__).parents[3]
DEVICES = each((1, 2, 4), (1, 4))
WAVES, CALLS, LOOP, TRACED = 2, 12, 5, 24
"""As the job has them."""
WEIGHTS = ("w1", "b1", "w2", "b2")
OPTIMIZERS = {"sgd": "sgd", "momentum": "momentum", "adam": "adam", "applied adam": "adam"}
"""What the job calls them, and what NumPy runs."""


@pytest.fixture(scope="module", params=DEVICES)
def devices(request: pytest.FixtureRequest) -> int:
    return request.param


@pytest.fixture(scope="module")
def trained(devices: int, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the job wrote."""
    out = tmp_path_factory.mktemp(f"mirrored{devices}")
    done = subprocess.run(
        [sys.executable, "-m", "tests.numerics.waves.mirrored_job", str(devices), out],
        cwd=ROOT,
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return out


def loaded(path: Path) -> Mapping[str, Array]:
    with np.load(path) as file:
        return dict(file)


def distance(found: Array, wanted: Array) -> float:
    """Relative to the norm."""
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))


def check_weights(ran: Mapping[str, Array], call: int, replica: Replica) -> None:
    """All replicas of the first wave have the weights of one in NumPy."""
    for name in WEIGHTS:
        for values in ran[name][call]:
            assert distance(values, replica.values[name]) <= 1e-6


def gradient_over(values: Values, given: list[tuple[Array, Array]]) -> Values:
    """As replicas with equal weights reduce it."""
    return mean([gradient_of(values, *batch) for batch in given])


def loss_over(values: Values, given: list[tuple[Array, Array]]) -> float:
    def one(inputs: Array, wanted: Array) -> Any:
        hidden = np.tanh(inputs @ values["w1"] + values["b1"])
        return np.mean((hidden @ values["w2"] + values["b2"] - wanted) ** 2)

    return float(np.mean([one(*batch) for batch in given]))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_average_of_a_batch_is_that_of_twice_the_replicas(
    trained: Path, devices: int, optimizer: str
) -> None:
    ran = loaded(trained / f"batch {optimizer}.npz")
    given = batches(CALLS * WAVES * devices)
    replica = Replica(OPTIMIZERS[optimizer])
    for call in range(CALLS):
        of_waves = [given[i * devices : (i + 1) * devices] for i in range(call * WAVES, call * WAVES + WAVES)]
        for loss, of_wave in zip(ran["losses"][call], of_waves, strict=True):
            assert abs(loss / loss_over(replica.values, of_wave) - 1) <= 1e-6
        replica.update(gradient_over(replica.values, [batch for of_wave in of_waves for batch in of_wave]))
        check_weights(ran, call, replica)
    assert distance(replica.values["w1"], ran["w1"][0][0]) > 1e-3


def test_waves_in_numbers_leave_a_page_with_their_copies(trained: Path, devices: int) -> None:
    """Each replica's second wave has copies of the weights, and more; the same is told as text."""
    left = trained / "batch sgd.report"
    assert {file.suffix for file in left.iterdir()} == {".html", ".md", ".tfwave"}
    text = (left / "waves.md").read_text()
    assert "| waves | 2 waves, offset 0, average batch |" in text
    assert (f"waves on each of {devices} replicas" if devices > 1 else "waves a call") in text
    copies = re.search(r"are (\d+) variables that the further waves have", text)
    assert copies is not None
    assert int(copies[1]) >= devices * len(WEIGHTS)
    assert list(told_events(left)["text"]) == ["tfwave/plan/waves"]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_average_of_waves_is_equation_1(trained: Path, devices: int, optimizer: str) -> None:
    """The losses of the second wave tell its weights."""
    ran = loaded(trained / f"wave {optimizer}.npz")
    given = batches(CALLS * WAVES * devices)
    replicas = [Replica(OPTIMIZERS[optimizer]) for _ in range(WAVES)]
    before: Values | None = None
    for call in range(CALLS):
        for wave, replica in enumerate(replicas):
            place = (call * WAVES + wave) * devices
            of_wave = given[place : place + devices]
            assert abs(ran["losses"][call][wave] / loss_over(replica.values, of_wave) - 1) <= 1e-6
            own = gradient_over(replica.values, of_wave)
            replica.update(mean([own, before or own]))
            before = own
        check_weights(ran, call, replicas[0])
    assert distance(replicas[0].values["w1"], replicas[1].values["w1"]) > 1e-4


def new_replicas(average: str) -> list[Replica]:
    """One for each wave; all are one where the weights stay equal."""
    first = Replica("sgd")
    return [first, first if average == "batch" else Replica("sgd")]


@pytest.mark.parametrize("average", ["batch", "wave"])
def test_a_loop_with_a_rest_and_a_restore(trained: Path, devices: int, average: str) -> None:
    """Rests are plain steps of wave 0, after which, as after a restore, all waves begin anew.

    Replicas that reduce take a new key in each call.
    """
    ran = loaded(trained / f"{average} loop.npz")
    given = batches(LOOP * WAVES * devices)
    waves = [given[i : i + devices] for i in range(0, len(given), devices)]
    waves[5] = [(inputs[:3], wanted[:3]) for inputs, wanted in waves[5]]
    replicas = new_replicas(average)
    before: Values | None = None
    losses: list[float] = []
    for call in range(LOOP):
        of_call = waves[call * WAVES : (call + 1) * WAVES if call != 1 else 3]
        if call in (1, 2):
            for of_wave in of_call:
                losses.append(loss_over(replicas[0].values, of_wave))
                replicas[0].update(gradient_over(replicas[0].values, of_wave))
            before = None
        else:
            if call == LOOP - 1:
                replicas, before = new_replicas(average), None
            losses += [loss_over(r.values, w) for r, w in zip(replicas, of_call, strict=True)]
            gradients = [gradient_over(r.values, w) for r, w in zip(replicas, of_call, strict=True)]
            if average == "batch":
                replicas[0].update(mean(gradients))
            else:
                for replica, own, other in zip(replicas, gradients, [before, *gradients], strict=False):
                    replica.update(mean([own, other or own]))
                before = gradients[-1]
        check_weights(ran, call, replicas[0])
    assert distance(ran["losses"], np.array(losses)) <= 1e-6
    assert ran["keys"][3:].tolist() == [[int(devices > 1)] * devices] * 2


def test_an_iterator_is_refused(trained: Path) -> None:
    told = json.loads((trained / "trace.json").read_text())
    assert told["refused"].startswith("the step takes an iterator")


def test_batch_norm_and_dropout_are_those_of_twice_the_replicas(trained: Path, devices: int) -> None:
    """The moving averages that the user sees are those of the first wave's replicas."""
    waves, once = loaded(trained / "in waves.npz"), loaded(trained / "at once.npz")
    assert waves.keys() == once.keys()
    assert distance(waves["losses"], once["losses"]) <= 1e-6
    moving = [name for name in waves if name.startswith("moving")]
    weights = [name for name in waves if name.startswith("weight")]
    assert (len(moving), len(weights)) == (2, 5)
    for name in weights:
        for values in waves[name]:
            assert distance(values, once[name][0]) <= 1e-6
    for name in moving:
        assert distance(waves[name], once[name][:devices]) <= 1e-6
        assert all(
            distance(one, other) > 1e-3 for one, other in zip(once[name], once[name][1:], strict=False)
        )


def test_a_wave_begins_after_its_gate_on_every_device(trained: Path, devices: int) -> None:
    told = json.loads((trained / "trace.json").read_text())
    graph = GraphDef.FromString(bytes.fromhex(told["graph"]))
    passes = [forward_pass(graph, wave) for wave in range(WAVES)]
    spans: dict[int, dict[str, tuple[float, float]]] = defaultdict(dict)
    for run in told["runs"]:
        spans[run["step"]][run["node"]] = (run["start_seconds"], run["start_seconds"] + run["seconds"])
    steps = [step for step in spans.values() if len(passes[1].keys() & step.keys()) > 5 * devices]
    assert len(steps) == TRACED
    for step in steps:
        ended = max(step[name][1] for name in passes[0].keys() & step.keys())
        begins: dict[int, list[float]] = defaultdict(list)
        for name in passes[1].keys() & step.keys():
            begins[passes[1][name]].append(step[name][0])
        assert begins.keys() == set(range(devices))
        assert all(len(on_device) > 5 for on_device in begins.values())
        assert all(ended <= min(on_device) for on_device in begins.values())


def forward_pass(graph: GraphDef, wave: int) -> dict[str, int]:
    """What the losses of a wave take, but for handles, constants and what is fed; with the numbers of replicas."""
    ops = {node.name: node.op for node in graph.node}
    edges = nx.DiGraph((t.partition(":")[0], n.name) for n in graph.node for t in n.input if t[0] != "^")
    (gate,) = [node for node in graph.node if node.name.startswith("tick_tock/gates/")]
    ends = [wave_name(text.removeprefix("^"), wave) for text in gate.input]
    found = {*ends, *(name for end in ends for name in nx.ancestors(edges, end))}
    return {
        name: int(replica[1]) if (replica := re.search(r"replica_(\d+)/", name)) else 0
        for name in found
        if ops[name] not in ("VarHandleOp", "Const", "Placeholder")
    }
