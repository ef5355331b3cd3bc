"""The shape of the paper's figures 11 and 13, from the benchmark's profiles."""

import json

import pytest

from tools.bench.waves import (
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


def test_the_benchmark_says_that_it_is_a_simulation(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--json"])
    document = json.loads(capsys.readouterr().out)
    assert document["simulation"] is True
    assert "not a measurement" in document["note"]
    main([])
    assert capsys.readouterr().out.startswith("SIMULATED")
