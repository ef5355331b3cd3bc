"""What waves gain over gang scheduling, as the paper's figures 11 and 13 draw it. All of it is SIMULATED.

python tools/bench/memory/waves.py [--json]

1. Data parallel (figure 11): a tick and a tock wave, alternating as in appendix B.1.1, with the same batch each.
2. The same over the share of the compute units that one wave keeps busy: what tells the models apart.
3. Model parallel (figure 13): as many waves as devices, over plain model parallelism. With the same batch for each
   wave, and with the batch that the memory leaves when plain model parallelism fills it. Beside it a GPipe-like
   pipeline, which holds what plain model parallelism does: if passes shrink with the batch, and if launches do not.

No GPU is used, and nothing here is a measurement of a model: profiles are data, and say where each figure is from.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tfwave.cost.analytic import LinkModel
from tfwave.rewrite.waves.cycles import cycle_table
from tfwave.waves.count import device_peaks
from tfwave.waves.iteration import Machine, Partition, iteration_seconds
from tfwave.waves.pair import Pace, WaveStep, pair_seconds
from tools.bench.memory.pipeline import LAUNCH_SHARE, MICRO_FOR_EACH_DEVICE, pipeline_seconds

NOTE = (
    "a simulation from profiles, not a measurement: it shows how the speed-ups follow from the profiles, "
    "and says nothing of how fast any device is"
)
SOURCES = {
    "link": "printed (section 4.1.1): 25 GB/s for each NVLink",
    "forward : backward": "printed for data parallel (section 3.2): a wave starts half of a step late, when the "
    "other's forward pass ends, so 1 : 1; synthetic for model parallel: 1 : 2",
    "compute share": "printed (section 2.2.1): about 0.3 of the cores for a ResNet, 0.4 for a DenseNet "
    "(appendix A); synthetic for VGG: 0.85, as no figure is printed",
    "parameters": "public: those of the models as published, in float32",
    "seconds": "synthetic: 0.2 s for a step on one device, 0.05 s for a partition's step",
    "sent bytes": "synthetic: 16 MB between partitions",
    "memory": "public: 16 GB for each device; plain model parallelism fills it (printed, section 4.2)",
    "switch": "printed (section 4.2.3), as all-reduce and switch together: 5 % for BERT, 2 % for VGG; all of it is "
    "taken for the switch",
    "pipeline": "4 micro-batches for each device, as GPipe; the share of a pass that does not shrink with its "
    "batch is chosen so that the speed-ups are about those that section 4.2.1 prints of GPipe: 2 with 4 devices, 3 "
    "with 8",
    "printed": "speed-ups that the text of section 4 names; other bars of the figures are not in the text",
}
NVLINK = LinkModel(10e-6, 25e9)
STEP_SECONDS, PARTITION_SECONDS = 0.2, 0.05
SENT_BYTES = 16_000_000
DEVICE_BYTES = 16_000_000_000
Row = dict[str, Any]


@dataclass(frozen=True)
class DataParallel:
    """A model whose copies are trained on several devices."""

    name: str
    compute_share: float
    parameters: int
    printed: str


@dataclass(frozen=True)
class ModelParallel:
    """A model that is cut into even partitions; `switch` is a share of a pass."""

    name: str
    parameters: int
    switch: float
    printed: dict[int, float]


COPIES = (
    DataParallel("ResNet-50", 0.3, 25_600_000, "up to 1.88 over all models"),
    DataParallel("ResNet-101", 0.3, 44_500_000, "up to 1.88 over all models"),
    DataParallel("DenseNet-160", 0.4, 14_000_000, "not in figure 11"),
    DataParallel("VGG-16", 0.85, 138_400_000, "below 1.2"),
    DataParallel("VGG-19-BN", 0.85, 143_700_000, "below 1.2"),
)
CUT = (
    ModelParallel("BERT-base", 110_000_000, 0.05, {8: 6.7}),
    ModelParallel("VGG-19-BN", 143_700_000, 0.02, {8: 4.7}),
)


def main(arguments: Sequence[str]) -> None:
    """Print the tables, or JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    tables = {
        "data parallel": [data_parallel(model, devices) for model in COPIES for devices in (2, 4, 8)],
        "by compute share": [
            by_compute_share(tenth / 10, lead) for lead in (0.5, 1 / 3) for tenth in range(1, 11)
        ],
        "model parallel": [model_parallel(model, devices) for model in CUT for devices in (2, 4, 8, 16)],
    }
    if options.json:
        print(json.dumps({"simulation": True, "note": NOTE, "sources": SOURCES, **tables}, indent=2))
        return
    print(f"SIMULATED: {NOTE}")
    for title, rows in tables.items():
        print(f"\n{title}")
        print_table(rows)


def data_parallel(model: DataParallel, devices: int) -> Row:
    """Samples per second of two alternating waves over those of one, with the same batch for each.

    The exchange of gradients runs beside the backward pass that makes them, or after it: then the other wave fills
    its time, too.
    """
    hidden = WaveStep(STEP_SECONDS / 2, STEP_SECONDS / 2, 0.0, model.compute_share)
    after = replace(hidden, sync_seconds=Machine(NVLINK).all_reduce_seconds(4 * model.parameters, devices))
    return {
        "model": model.name,
        "devices": devices,
        "speed-up": speedup(hidden),
        "speed-up, exchange after backward": speedup(after),
        "printed": model.printed,
    }


def by_compute_share(share: float, lead: float) -> Row:
    """The same over the share of the compute units, without an exchange."""
    step = WaveStep(lead * STEP_SECONDS, (1 - lead) * STEP_SECONDS, 0.0, share)
    return {"forward share of the step": round(lead, 3), "compute share": share, "speed-up": speedup(step)}


def speedup(step: WaveStep) -> float:
    """Of two alternating waves."""
    return round(2 * step.seconds / pair_seconds(step, Pace.ALTERNATING), 3)


def model_parallel(model: ModelParallel, devices: int) -> Row:
    """All waves over one: with the same batch, and with what one device's memory leaves of it for each wave.

    Plain model parallelism fills the memory. A smaller batch saves nothing of the time, at the least, and all of
    its share at the most.
    """
    even = [even_partition(model, devices)] * devices
    machine = Machine(NVLINK, switch_seconds=model.switch * PARTITION_SECONDS / 2)
    one, all_waves = cycle_table(devices, 1), cycle_table(devices, devices)
    seconds = [iteration_seconds(table, even, machine) for table in (one, all_waves)]
    peaks = [max(device_peaks(table, even)) for table in (one, all_waves)]
    same_batch = devices * seconds[0] / seconds[1]
    resident = sum(partition.resident_bytes for partition in even)
    batch = max(0.0, (peaks[0] - resident) / (peaks[1] - resident))
    return {
        "model": model.name,
        "devices": devices,
        "speed-up": round(same_batch, 3),
        "memory over plain": round(peaks[1] / peaks[0], 2),
        "batch in plain's memory": round(batch, 3),
        "speed-up in it, at least": round(same_batch * batch, 3),
        "speed-up in it, at most": round(same_batch if batch else 0.0, 3),
        **pipeline(even, machine, seconds[0]),
        "printed": model.printed.get(devices),
    }


def pipeline(even: Sequence[Partition], machine: Machine, plain_seconds: float) -> Row:
    """A step with the same batch in the same memory, over plain model parallelism."""
    micro = MICRO_FOR_EACH_DEVICE * len(even)
    least, most = (pipeline_seconds(even, machine, micro, share) for share in (0.0, LAUNCH_SHARE))
    return {
        "pipeline, at most": round(plain_seconds / least, 3),
        "pipeline, with launches": round(plain_seconds / most, 3),
    }


def even_partition(model: ModelParallel, devices: int) -> Partition:
    """One of as many as devices; variables, and twice as much for gradients and the optimizer."""
    size = 4 * model.parameters // devices
    forward = PARTITION_SECONDS / 3
    return Partition(
        forward,
        2 * forward,
        resident_bytes=3 * size,
        kept_bytes=DEVICE_BYTES - 3 * size,
        sent_bytes=SENT_BYTES,
        gradient_bytes=size,
    )


def print_table(rows: Sequence[Row]) -> None:
    """Columns as wide as their widest cell."""
    table = [list(rows[0]), *(["-" if cell is None else str(cell) for cell in row.values()] for row in rows)]
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    for line in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


if __name__ == "__main__":
    main(sys.argv[1:])
