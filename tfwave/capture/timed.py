"""Steps that were run, timed and traced, on their way into a bundle."""

import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from tfwave.bundle.bundle import BUNDLE_VERSION, Bundle, Manifest, StepSummary, missing_transfers
from tfwave.errors import BundleError
from tfwave.proto.tensorflow_pb2 import GraphDef, StepStats
from tfwave.runtime.machine import busy_seconds
from tfwave.version import __version__

DEFAULT_STEPS = 5
DEFAULT_WARMUP = 2


@dataclass(frozen=True)
class StepTime:
    """What a call took: wall seconds, and what the cores worked meanwhile, None where that is not known."""

    seconds: float
    core_seconds: float | None

    @property
    def compute_share(self) -> float | None:
        """Of this machine's cores, that were kept busy, at most 1; None: not known."""
        if self.core_seconds is None:
            return None
        return min(1.0, self.core_seconds / (self.seconds * (os.cpu_count() or 1)))


@dataclass(frozen=True)
class TracedStep:
    """A step that ran."""

    time: StepTime
    stats: StepStats


def check_counts(steps: int, warmup: int, least_warmup: int = 0) -> None:
    """Refuse counts of steps that nobody can trace.

    Raises:
        BundleError: a count is out of range.
    """
    if steps < 1 or warmup < least_warmup:
        raise BundleError(
            f"cannot trace {steps} steps after {warmup}: steps must be >= 1, warmup >= {least_warmup}"
        )


def timed(
    run: Callable[[], Any], worked_seconds: Callable[[], float | None] = busy_seconds
) -> tuple[Any, StepTime]:
    """Run something; what it returns, and its time.

    `worked_seconds` counts what the cores work, by default for all processes of the machine; what runs in this one
    alone is better told by `time.process_time`, which leaves others out and tells short calls apart.
    """
    start, busy = time.perf_counter(), worked_seconds()
    result = run()
    seconds, worked = time.perf_counter() - start, worked_seconds()
    return result, StepTime(seconds, None if busy is None or worked is None else worked - busy)


def untraced_core_seconds(warmup: Sequence[StepTime]) -> float | None:
    """What the cores worked in the median of the steps before the traced ones; None: not known.

    Of several the first does not count, which builds kernels.
    """
    worked = [step.core_seconds for step in warmup if step.core_seconds is not None]
    return statistics.median(worked[1:] or worked) if worked else None


def bundle_of(  # noqa: PLR0913
    graphs: Sequence[GraphDef],
    traced: Sequence[TracedStep],
    *,
    target: str,
    devices: Sequence[str],
    fetches: Sequence[str],
    warmup: int,
) -> Bundle:
    """The bundle of some steps that this process traced, after `warmup` others."""
    stats = [step.stats for step in traced]
    missing = missing_transfers(graphs, stats)
    manifest = Manifest(
        version=BUNDLE_VERSION,
        tfwave=__version__,
        tensorflow=import_module("tensorflow").__version__,
        target=target,
        devices=list(devices),
        fetches=list(fetches),
        warmup_steps=warmup,
        steps=[
            StepSummary(
                seconds=step.time.seconds, missing_transfers=lost, core_seconds=step.time.core_seconds
            )
            for step, lost in zip(traced, missing, strict=True)
        ],
        cores=os.cpu_count(),
    )
    return Bundle(manifest, tuple(graphs), tuple(stats))
