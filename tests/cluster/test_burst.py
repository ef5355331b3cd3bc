"""Burst plans of five models on four devices: of one process, and of four real workers."""

import json
from collections.abc import Iterator

import pytest

from tests.cluster.cluster import free_addresses, serving, start
from tests.cluster.speaker import Speaker, spawn

pytestmark = pytest.mark.tensorflow
MODELS = ("vgg", "inception", "words", "attention", "two_sided")
PLANS = ("one", "all", "two", "three", "turns", "apart")
WORKERS = 4


@pytest.fixture(scope="module")
def chief() -> Iterator[Speaker]:
    addresses = free_addresses(WORKERS + 1)
    spec = {"worker": addresses[:WORKERS], "chief": addresses[WORKERS:]}
    workers = [start(spec, "worker", [task], None) for task in range(WORKERS)]
    with serving(*workers):
        chief = Speaker(spawn("tests.cluster.burst_chief", json.dumps(spec)))
        try:
            assert chief.hear() == "ready"
            yield chief
        finally:
            chief.kill()


@pytest.mark.parametrize("where", ["here", "there"])
@pytest.mark.parametrize("name", MODELS)
def test_a_step_is_one_devices_and_runs_as_planned(chief: Speaker, name: str, where: str) -> None:
    """By TensorFlow's own partition graphs: what is no layer's is a loss, on the first device."""
    for kind in PLANS:
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
