"""The shape of the paper's figures 11 and 13, from the benchmark's profiles."""

import json

import pytest

from tfwave.cost.analytic import LinkModel
from tfwave.waves.iteration import Machine, Partition
from tools.bench.memory.pipeline import pipeline_seconds
from tools.bench.memory.waves import (
    COPIES,
    CUT,
    ModelParallel,
    by_compute_share,
    data_parallel,
    main,
    model_parallel,
)


@pytest.fixture(scope="module")
def gains() -> dict[str, float]:
    return {model.name: data_parallel(model, 4)["speed-up"] for model in COPIES}


def test_memory_bound_models_gain_and_vgg_hardly(gains: dict[str, float]) -> None:
    assert gains["ResNet-50"] > 1.8
    assert gains["ResNet-101"] > 1.8
    assert 1 <= gains["VGG-16"] < 1.2
    assert 1 <= gains["VGG-19-BN"] < 1.2


def test_the_gain_falls_with_the_share_of_the_compute_units() -> None:
    rows = [by_compute_share(tenth / 10, 0.5)["speed-up"] for tenth in range(1, 11)]
    assert rows == sorted(rows, reverse=True)
    assert rows[0] == pytest.approx(2)
    assert rows[-1] == pytest.approx(1)


@pytest.mark.parametrize("model", CUT, ids=lambda model: model.name)
def test_waves_scale_nearly_with_the_devices(model: ModelParallel) -> None:
    found = {devices: model_parallel(model, devices) for devices in (2, 4, 8)}
    for devices, row in found.items():
        assert 0.85 * devices < row["speed-up"] <= devices
        assert row["memory over plain"] == pytest.approx(devices)
        assert row["batch in plain's memory"] <= 1 / devices


@pytest.mark.parametrize(("devices", "micro"), [(1, 1), (2, 1), (2, 8), (4, 16)])
def test_a_pipeline_fills_and_runs_empty_once(devices: int, micro: int) -> None:
    """M + N - 1 passes, each of 1/M of the batch, forward and backward: with one micro-batch it is no pipeline."""
    even = [Partition(1.0, 2.0)] * devices
    found = pipeline_seconds(even, Machine(), micro, 0.0)
    assert found == pytest.approx(3.0 * (micro + devices - 1) / micro)
    launched = pipeline_seconds(even, Machine(), micro, 0.5)
    assert launched == pytest.approx(found * micro * (0.5 + 0.5 / micro))


def test_a_pipeline_waits_for_its_links() -> None:
    """Two micro-batches: forward over, the second one's bytes, and back."""
    two = [Partition(1.0, 1.0, sent_bytes=10)] * 2
    assert pipeline_seconds(two, Machine(LinkModel(0.0, 1.0)), 1, 0.0) == pytest.approx(4.0 + 2 * 10)


@pytest.mark.parametrize("model", CUT, ids=lambda model: model.name)
def test_launches_hold_a_pipeline_to_what_is_printed_of_gpipe(model: ModelParallel) -> None:
    four, eight = (model_parallel(model, devices) for devices in (4, 8))
    assert four["pipeline, with launches"] < 2.2
    assert 2.7 < eight["pipeline, with launches"] < 3.3
    assert four["pipeline, at most"] < four["speed-up"]


def test_the_benchmark_says_that_it_is_a_simulation(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--json"])
    document = json.loads(capsys.readouterr().out)
    assert document["simulation"] is True
    assert "not a measurement" in document["note"]
    main([])
    assert capsys.readouterr().out.startswith("SIMULATED")
