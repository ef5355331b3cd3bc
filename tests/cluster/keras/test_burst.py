"""Burst plans of five models on four devices: of one process, and of four real workers."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.cluster import free_addresses, serving, start
from tests.cluster.speaker import Speaker, spawn
from tests.full import IS_FULL, each

pytestmark = pytest.mark.tensorflow
MODELS = ("vgg", "inception", "words", "attention", "two_sided")
PLANS = ("one", "all", "two", "three", "turns", "apart")
SOME = {"here": ("one", "turns", "apart"), "there": ("two", "apart")}
"""Of models that are not tried by each plan: in full, all are."""
THOROUGH = ("vgg", "two_sided")
WORKERS = 4
TRAINS = """
import os, resource, signal, sys
import numpy as np
draw = np.random.default_rng(5)
inputs, wanted, weights = draw.normal(size=(64, 16)), draw.normal(size=64), np.zeros(16)
for number in range(1 << 30):
    weights -= 0.01 / 64 * (inputs.T @ (inputs @ weights - wanted))
    with open(sys.argv[1], "ab") as note:
        note.write(b".")
    if number == 5:
        {fault}
"""
OUT_OF_MEMORY = "resource.setrlimit(resource.RLIMIT_AS, (1 << 27, 1 << 27)); kept = bytearray(1 << 30)"
FAULTS = {
    "none": ("pass", None),
    "killed": ("os.kill(os.getpid(), signal.SIGKILL)", 128 + signal.SIGKILL),
    "hanging": ("signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.pause()", None),
    "out of memory": (OUT_OF_MEMORY, 1),
}
"""What a background does after six steps, and its exit code while the foreground goes on."""


@pytest.fixture(scope="module")
def chief() -> Iterator[Speaker]:
    addresses = free_addresses(WORKERS + 1)
    spec = {"worker": addresses[:WORKERS], "chief": addresses[WORKERS:]}
    workers = [start(spec, "worker", [task], None) for task in range(WORKERS)]
    with serving(*workers):
        chief = Speaker(spawn("tests.cluster.keras.burst_chief", json.dumps(spec)))
        try:
            assert chief.hear() == "ready"
            yield chief
        finally:
            chief.kill()


@pytest.mark.parametrize("where", ["here", "there"])
@pytest.mark.parametrize("name", MODELS)
def test_a_step_is_one_devices_and_runs_as_planned(chief: Speaker, name: str, where: str) -> None:
    """By TensorFlow's own partition graphs: what is no layer's is a loss, on the first device."""
    is_thorough = IS_FULL or (name in THOROUGH and where == "here")
    for kind in PLANS if is_thorough else SOME[where]:
        found = chief.ask("step", name=name, kind=kind, where=where)
        assert found["apart"] <= (0.0 if kind == "one" else 1e-5), kind
        places = {layer: list(range(at, at + count)) for layer, (at, count) in found["places"].items()}
        computing = {layer: place for layer, place in places.items() if "input" not in layer}
        assert found["forward"] == computing, kind
        assert found["backward"].items() <= places.items(), kind
        assert len(found["backward"]) >= len(found["forward"]) - 2, "concatenate and dropout may have none"
        assert set(map(tuple, found["others"].values())) == {(0,)}, kind


def test_fit_on_workers_trains_what_one_process_does(chief: Speaker) -> None:
    here, there = chief.ask("fit")
    assert there == pytest.approx(here, rel=1e-5)


@pytest.mark.parametrize("fault", each(FAULTS, ("none", "hanging", "killed")))
def test_a_burst_on_two_workers_computes_the_same_beside_a_background(
    chief: Speaker, tmp_path: Path, fault: str
) -> None:
    """It makes steps on what the workers leave idle; whatever becomes of it, no loss changes by a bit."""
    does, code = FAULTS[fault]
    program = tmp_path / "train.py"
    program.write_text(TRAINS.format(fault=does))
    ends = code is not None
    found = chief.ask("beside", program=str(program), note=str(tmp_path / "note"), ends=ends)
    assert found["beside"] == found["alone"]
    assert len(set(found["alone"])) > 1
    if not found["seen"]:
        pytest.skip("others kept the cores busy all the time, and left nothing for the background")
    assert found["exit_code"] == code
    assert found["steps"] >= 4
