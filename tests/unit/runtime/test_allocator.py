"""The variables of TensorFlow's memory pools, without TensorFlow."""

import json
import logging
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any, cast

import pytest

import tfwave
from tfwave.errors import EnforcerError, EnvironmentUnsupported, PlanError
from tfwave.plan.placement import Placement
from tfwave.plan.plan import Plan
from tfwave.runtime import allocator as module
from tfwave.runtime.allocator import POOL, AllocatorSettings, Device, one_region, set_up
from tfwave.runtime.gpu_memory import limit_gpus
from tfwave.runtime.planned_pool import PlannedPool, open_pool

MB = 1 << 20
CPU = {"TF_CPU_ALLOCATOR_USE_BFC": "1", "TF_CPU_BFC_MEM_LIMIT_IN_MB": "256", "TF_ENABLE_ONEDNN_OPTS": "0"}
NAMES = (*CPU, "TF_FORCE_GPU_ALLOW_GROWTH", "TF_GPU_ALLOCATOR")
GPU = AllocatorSettings(512 * MB, Device.GPU)
PROGRAM = """
import json, os, sys
from tfwave.runtime.allocator import AllocatorSettings, set_up
lines = set_up(AllocatorSettings(256 << 20))
names = [name for name in sys.modules if name.partition(".")[0] == "tensorflow"]
print(json.dumps({"lines": lines, "environment": dict(os.environ), "imported": names}))
"""


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """This process's, without the variables; it is restored after the test."""
    kept = {name: value for name, value in os.environ.items() if name not in NAMES}
    monkeypatch.setattr(module.os, "environ", kept)
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    return kept


def test_a_process_gets_the_variables_and_no_tensorflow(environment: dict[str, str]) -> None:
    program = [sys.executable, "-c", PROGRAM]
    ran = subprocess.run(program, env=environment, capture_output=True, text=True, check=True, timeout=60)
    found: dict[str, Any] = json.loads(ran.stdout)
    assert found["environment"].items() >= CPU.items()
    assert found["imported"] == []
    assert found["lines"] == [
        "CPU pool of 256 MiB: TF_CPU_ALLOCATOR_USE_BFC=1, TF_CPU_BFC_MEM_LIMIT_IN_MB=256",
        "oneDNN is off, as it crashes where a pool runs out: TF_ENABLE_ONEDNN_OPTS=0",
    ]


def test_what_was_done_is_logged(environment: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="tfwave"):
        lines = set_up(AllocatorSettings(257 * MB - 1))
    assert tuple(caplog.messages) == lines
    assert environment["TF_CPU_BFC_MEM_LIMIT_IN_MB"] == "256"


@pytest.mark.parametrize("growth", [True, False])
@pytest.mark.parametrize("asynchronous", [True, False])
def test_the_variables_of_gpus(environment: dict[str, str], *, growth: bool, asynchronous: bool) -> None:
    before = dict(environment)
    lines = set_up(AllocatorSettings(512 * MB, Device.GPU, growth=growth, asynchronous=asynchronous))
    wanted = {"TF_FORCE_GPU_ALLOW_GROWTH": "true" if growth else "false"}
    if asynchronous:
        wanted["TF_GPU_ALLOCATOR"] = "cuda_malloc_async"
    assert environment == before | wanted
    for name, value in wanted.items():
        assert sum(f"{name}={value}" in line for line in lines) == 1
    assert any("which may exceed 512 MiB" in line for line in lines) == asynchronous


@pytest.mark.parametrize("name", CPU)
def test_a_variable_with_another_value_stays_as_it_is(environment: dict[str, str], name: str) -> None:
    environment[name] = "7"
    before = dict(environment)
    with pytest.raises(
        EnvironmentUnsupported, match=f"{name} is '7', but it must be '{CPU[name]}': unset it"
    ):
        set_up(AllocatorSettings(256 * MB))
    assert environment == before


def test_another_allocator_of_gpus_is_refused(environment: dict[str, str]) -> None:
    environment["TF_GPU_ALLOCATOR"] = "cuda_malloc_async"
    set_up(AllocatorSettings(512 * MB, Device.GPU, asynchronous=True))
    with pytest.raises(EnvironmentUnsupported, match="but it must not be set: unset it"):
        set_up(GPU)


def test_after_tensorflow_only_what_is_set_already(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    environment |= {name: CPU[name] for name in list(CPU)[:2]}
    before = dict(environment)
    monkeypatch.setitem(sys.modules, "tensorflow", SimpleNamespace())
    with pytest.raises(EnforcerError, match="already imported without TF_ENABLE_ONEDNN_OPTS: set the"):
        set_up(AllocatorSettings(256 * MB))
    assert environment == before
    environment["TF_ENABLE_ONEDNN_OPTS"] = "0"
    assert len(set_up(AllocatorSettings(256 * MB))) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limit_bytes": 4 * MB - 1}, "a limit of 4.0 MiB is out of range: give 4 MiB or more"),
        ({"limit_bytes": 4 * MB, "device": "tpu"}, "no allocator for 'tpu': give 'cpu' or 'gpu'"),
        ({"limit_bytes": 4 * MB, "growth": False}, "the pool of a CPU takes a limit only"),
        ({"limit_bytes": 4 * MB, "asynchronous": True}, "the pool of a CPU takes a limit only"),
        ({"limit_bytes": 4 * MB, "padding_fraction": 0.1}, "the pool of a CPU takes a limit only"),
        ({"limit_bytes": 4 * MB, "device": "gpu", "padding_fraction": 1.0}, "give 0 <= fraction < 1"),
        (
            {"limit_bytes": 4 * MB, "device": "gpu", "padding_fraction": float("nan")},
            "give 0 <= fraction < 1",
        ),
        (
            {"limit_bytes": 4 * MB, "device": "gpu", "asynchronous": True, "padding_fraction": 0.1},
            "cudaMallocAsync splits no chunks",
        ),
    ],
)
def test_settings_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(EnforcerError, match=message):
        AllocatorSettings(**options)


def test_a_device_may_be_given_by_its_name(environment: dict[str, str]) -> None:
    name: Any = "gpu"
    set_up(AllocatorSettings(4 * MB, name))
    assert "TF_FORCE_GPU_ALLOW_GROWTH" in environment


@pytest.mark.parametrize("missing", ["TF_CPU_ALLOCATOR_USE_BFC", "TF_CPU_BFC_MEM_LIMIT_IN_MB"])
def test_a_pool_without_a_limit_is_not_made_one_region(environment: dict[str, str], missing: str) -> None:
    environment |= CPU
    del environment[missing]
    with pytest.raises(EnforcerError, match="the CPU's pool has no limit: set the allocator up"):
        one_region()
    assert "tensorflow" not in sys.modules


@pytest.mark.parametrize("limit", ["", "all", "-5", "3"])
def test_a_pool_with_a_limit_that_cannot_be_is_not_made_one_region(
    environment: dict[str, str], limit: str
) -> None:
    environment |= CPU | {"TF_CPU_BFC_MEM_LIMIT_IN_MB": limit}
    with pytest.raises(EnforcerError, match="the CPU's pool has no limit"):
        one_region()


class Config:
    """TensorFlow's functions for devices, as it documents them."""

    def __init__(self, gpus: int, running: bool = False) -> None:
        self._gpus = [SimpleNamespace(name=f"/physical_device:GPU:{i}") for i in range(gpus)]
        self._running = running
        self.limits: dict[str, list[int]] = {}

    def list_physical_devices(self, kind: str) -> list[SimpleNamespace]:
        return self._gpus if kind == "GPU" else []

    def LogicalDeviceConfiguration(self, memory_limit: int) -> int:
        return memory_limit

    def set_logical_device_configuration(self, gpu: SimpleNamespace, limits: list[int]) -> None:
        if self._running:
            raise RuntimeError("Virtual devices cannot be modified after being initialized")
        self.limits[gpu.name] = limits


def test_each_gpu_gets_one_logical_device(monkeypatch: pytest.MonkeyPatch) -> None:
    config = Config(2)
    monkeypatch.setitem(sys.modules, "tensorflow", SimpleNamespace(config=config))
    assert limit_gpus(GPU) == tuple(f"/physical_device:GPU:{i}: a limit of 512 MiB" for i in range(2))
    assert config.limits == {"/physical_device:GPU:0": [512], "/physical_device:GPU:1": [512]}


def test_gpus_that_are_not_there_or_in_use_are_not_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow", SimpleNamespace(config=Config(0)))
    with pytest.raises(EnvironmentUnsupported, match="sees no GPU"):
        limit_gpus(GPU)
    monkeypatch.setitem(sys.modules, "tensorflow", SimpleNamespace(config=Config(1, running=True)))
    with pytest.raises(EnforcerError, match=r"already in use \(Virtual devices .*\): limit them before"):
        limit_gpus(GPU)


def test_a_user_limits_each_gpu(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    config = Config(2)
    environment["TF_FORCE_GPU_ALLOW_GROWTH"] = "false"
    monkeypatch.setitem(sys.modules, "tensorflow", SimpleNamespace(config=config))
    lines = tfwave.colocate.limit_memory("512MiB", device="gpu", growth=False)
    assert lines[-1] == "/physical_device:GPU:1: a limit of 512 MiB"
    assert config.limits == {"/physical_device:GPU:0": [512], "/physical_device:GPU:1": [512]}
    with pytest.raises(EnvironmentUnsupported, match="GROWTH is 'false', but it must be 'true'"):
        tfwave.colocate.limit_memory("512MiB", device="gpu")


def test_a_cpu_takes_no_options_of_gpus_and_there_is_no_third_device() -> None:
    with pytest.raises(EnforcerError, match="leave the other options to GPUs"):
        tfwave.colocate.limit_memory("512MiB", asynchronous=True)
    with pytest.raises(EnforcerError, match="no allocator for 'tpu': give 'cpu' or 'gpu'"):
        tfwave.colocate.limit_memory("512MiB", device=cast("Any", "tpu"))


def test_a_planned_pool_comes_before_tensorflow_and_in_place_of_its_own(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(EnforcerError, match=r"a limit of 1 MiB is out of range: give 4 MiB or more"):
        open_pool(MB)
    environment[POOL] = "1"
    with pytest.raises(EnvironmentUnsupported, match=f"{POOL} is '1', but it must be '0'"):
        open_pool(64 * MB)
    del environment[POOL]
    monkeypatch.setitem(sys.modules, "tensorflow", SimpleNamespace())
    with pytest.raises(EnforcerError, match="TensorFlow is already imported: open the planned pool before"):
        open_pool(64 * MB)
    assert POOL not in environment


def test_a_plan_without_places_is_not_installed() -> None:
    with pytest.raises(PlanError, match="the plan does not say where buffers lie"):
        PlannedPool(None, 1).install(Plan(placement=Placement(1)))
