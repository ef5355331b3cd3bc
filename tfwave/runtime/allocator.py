"""TensorFlow's memory pools: the settings, and the variables that it reads when it starts.

What is said of the CPU's pool was measured. Of a GPU's the limit, growth and
`cudaMallocAsync` were, on an H200; the rest is what TensorFlow's documentation and source say.
"""

import logging
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from typing import Any

from tfwave.errors import EnforcerError, EnvironmentUnsupported
from tfwave.sizes import MIB, in_words

LEAST_LIMIT = 4 * MIB
"""TensorFlow takes the first 2 MiB of a CPU pool, and counts limits in MiB."""
POOL = "TF_CPU_ALLOCATOR_USE_BFC"
LIMIT = "TF_CPU_BFC_MEM_LIMIT_IN_MB"
ONEDNN = "TF_ENABLE_ONEDNN_OPTS"
GROWTH = "TF_FORCE_GPU_ALLOW_GROWTH"
ALLOCATOR = "TF_GPU_ALLOCATOR"
_REGION_SLACK_MB = 3
_log = logging.getLogger("tfwave")


class Device(StrEnum):
    """Whose pool."""

    CPU = "cpu"
    GPU = "gpu"


@dataclass(frozen=True)
class AllocatorSettings:
    """How a process gets its memory. Only the limit matters on a CPU, whose pool always grows.

    Attributes:
        limit_bytes: what the pool has; counted in whole MiB (2**20 bytes), rounded down.
        device: the CPU, with all its logical devices, or each GPU.
        growth: take memory as it is needed, not all at the start.
        asynchronous: CUDA's own pool (`cudaMallocAsync`) in place of TensorFlow's. It keeps as much as the limit,
            but may take more.
        padding_fraction: a chunk that is under twice as large as asked for is given whole if that wastes less than
            this share of the limit; 0: less than 128 MiB, TensorFlow's default.

    Raises:
        EnforcerError: a limit under 4 MiB, an unknown device, a fraction out of range, or options that exclude each
            other.
    """

    limit_bytes: int
    device: Device = Device.CPU
    growth: bool = True
    asynchronous: bool = False
    padding_fraction: float = 0.0

    def __post_init__(self) -> None:
        if self.limit_bytes < LEAST_LIMIT:
            raise EnforcerError(
                f"a limit of {in_words(self.limit_bytes)} is out of range: give {in_words(LEAST_LIMIT)} or more"
            )
        if self.device not in list(Device):
            raise EnforcerError(f"there is no allocator for {self.device!r}: give 'cpu' or 'gpu'")
        if not 0 <= self.padding_fraction < 1:
            raise EnforcerError(
                f"a padding of {self.padding_fraction} of the limit is out of range: give 0 <= fraction < 1"
            )
        if self.device == Device.CPU and (self.asynchronous or self.padding_fraction or not self.growth):
            raise EnforcerError("the pool of a CPU takes a limit only: leave the other options to GPUs")
        if self.asynchronous and self.padding_fraction:
            raise EnforcerError("cudaMallocAsync splits no chunks: choose it or padding_fraction")

    @property
    def limit_mb(self) -> int:
        """The limit as TensorFlow takes it."""
        return self.limit_bytes // MIB


def set_up(settings: AllocatorSettings) -> tuple[str, ...]:
    """Set the variables that TensorFlow reads when it starts; what was done, line by line, which is also logged.

    Changes nothing if it raises, and nothing where all is set already.

    Raises:
        EnforcerError: TensorFlow is already imported, without the variables.
        EnvironmentUnsupported: a variable has another value.
    """
    wanted = cpu_variables(settings) if settings.device == Device.CPU else _gpu_variables(settings)
    set_variables(wanted)
    return say(_said(settings, wanted))


def set_variables(wanted: Mapping[str, str | None]) -> None:
    """Set what TensorFlow reads when it starts, where it is not set; None: must not be.

    Raises:
        EnforcerError, EnvironmentUnsupported: as `set_up`.
    """
    for name, value in wanted.items():
        _check_variable(name, value)
    missing = {name: value for name, value in wanted.items() if value is not None and name not in os.environ}
    if missing and "tensorflow" in sys.modules:
        raise EnforcerError(
            f"TensorFlow is already imported without {' and '.join(missing)}: set the allocator up before"
        )
    os.environ.update(missing)


def one_region() -> str:
    """Make the CPU's pool one region, so that what is freed can always coalesce; says so, and logs it.

    TensorFlow extends a pool by regions, twice as large each time, and never merges them. This allocates and frees
    a tensor of 3 MiB less than the limit, without touching its pages. Call it before the first other op.

    Raises:
        EnforcerError: the pool is not set up, or has not that much in one piece (which takes TensorFlow 10 s to
            find out).
    """
    limit = _limit_mb(os.environ)
    size = limit - _REGION_SLACK_MB
    tf: Any = import_module("tensorflow")
    try:
        with tf.init_scope(), tf.device("/device:CPU:0"):
            tf.raw_ops.Empty(shape=[size * MIB // 4], dtype=tf.float32)
    except tf.errors.ResourceExhaustedError as err:
        raise EnforcerError(
            f"the pool of {limit} MiB has no {size} MiB in one piece any more: make it one region before "
            "the first op"
        ) from err
    (line,) = say([f"CPU pool of {limit} MiB: one region of {size} MiB or more"])
    return line


def say(lines: Iterable[str]) -> tuple[str, ...]:
    """Log what was done, and give it back."""
    said = tuple(lines)
    for line in said:
        _log.info(line)
    return said


def cpu_variables(settings: AllocatorSettings) -> dict[str, str]:
    """What TensorFlow reads for a CPU's pool."""
    return {POOL: "1", LIMIT: str(settings.limit_mb), ONEDNN: "0"}


def _gpu_variables(settings: AllocatorSettings) -> dict[str, str | None]:
    """None: must not be set."""
    return {
        GROWTH: "true" if settings.growth else "false",
        ALLOCATOR: "cuda_malloc_async" if settings.asynchronous else None,
    }


def _check_variable(name: str, wanted: str | None) -> None:
    found = os.environ.get(name)
    if found not in (None, wanted):
        need = "it must not be set" if wanted is None else f"it must be {wanted!r}"
        raise EnvironmentUnsupported(f"the variable {name} is {found!r}, but {need}: unset it")


def _limit_mb(environment: Mapping[str, str]) -> int:
    limit = environment.get(LIMIT, "")
    if environment.get(POOL) != "1" or not limit.isdecimal() or int(limit) * MIB < LEAST_LIMIT:
        raise EnforcerError("the CPU's pool has no limit: set the allocator up before TensorFlow is imported")
    return int(limit)


def _said(settings: AllocatorSettings, variables: Mapping[str, str | None]) -> list[str]:
    values = {name: f"{name}={value}" for name, value in variables.items()}
    limit = f"{settings.limit_mb} MiB"
    if settings.device == Device.CPU:
        return [
            f"CPU pool of {limit}: {values[POOL]}, {values[LIMIT]}",
            f"oneDNN is off, as it crashes where a pool runs out: {values[ONEDNN]}",
        ]
    taken = "as it is needed" if settings.growth else "at the start"
    lines = [f"GPU memory is taken {taken}: {values[GROWTH]}"]
    if settings.asynchronous:
        lines.append(f"GPU memory comes from cudaMallocAsync, which may exceed {limit}: {values[ALLOCATOR]}")
    return lines
