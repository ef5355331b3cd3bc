"""`tfwave waves` of a model parallel step: how many batches its devices take at once (Wavelet, appendix B.2)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any

from tfwave.bundle.bundle import Bundle
from tfwave.bundle.memory import captured_memory
from tfwave.bundle.memory.captured import memory_devices
from tfwave.cli.output import console, milliseconds, print_table, short_device
from tfwave.errors import BundleError
from tfwave.graph.partition.devices import parse_device
from tfwave.plan.fingerprint import graph_print
from tfwave.plan.plan import Plan
from tfwave.plan.waves import Waves
from tfwave.rewrite.waves.cycles import cycle_table
from tfwave.rewrite.waves.partitions import Partitions
from tfwave.rewrite.waves.training import Training
from tfwave.sizes import in_words
from tfwave.waves.count import WaveCount, count_waves, device_peaks
from tfwave.waves.iteration import Machine, Partition
from tfwave.waves.partition_profile import partition_profiles

SLOWED_AT_MOST = 0.05
"""The tick wave may be slowed by this share: the paper's "without significantly introducing latency"."""


@dataclass(frozen=True)
class PartitionWaves:
    """A captured step on several devices, whose graph is `training`'s.

    CPU devices share `limit`, in bytes, evenly, and the cores, of which a pass keeps `compute_share` busy. Others
    have `limit` each, and slow each other nowhere. Transfers are not reckoned with.
    """

    bundle: Bundle
    training: Training
    limit: int
    compute_share: float

    @cached_property
    def partitions(self) -> Partitions:
        return Partitions.of(self.training)

    @cached_property
    def profiles(self) -> Sequence[Partition]:
        """One for each partition."""
        devices = [self._traced(device) for device in self.partitions.devices]
        memories = [captured_memory(self.bundle, device).memory for device in devices]
        return partition_profiles(self.training, self.partitions, memories)

    @cached_property
    def count(self) -> WaveCount:
        """How many waves."""
        machine = Machine(compute_units=1 / self.compute_share if self._is_shared else inf)
        return count_waves(self.profiles, machine, self.of_a_device, SLOWED_AT_MOST)

    @property
    def of_a_device(self) -> int:
        """The limit of each device, in bytes."""
        return self.limit // len(self.partitions) if self._is_shared else self.limit

    @property
    def peak(self) -> int:
        """The most that a device holds with these waves, in bytes."""
        return max(device_peaks(cycle_table(len(self.partitions), self.count.waves), self.profiles))

    @property
    def text(self) -> str:
        """Why so many."""
        count, most = self.count, len(self.partitions)
        told = [f"{waves} would slow the tick wave by {share:.0%}" for waves, share in count.slowed[:-1]]
        if count.most < most:
            told.insert(0, f"no more than {count.most} fit {in_words(self.of_a_device)} of a device")
        if not told:
            told.append(f"all fit, and slow the tick wave by {count.slowed[-1][1]:.0%}")
        return f"{count.waves} of {most} waves: {', '.join(told)}"

    def plan(self) -> Plan:
        """For `tick_tock_partitions`."""
        printed = graph_print(self.training.step.view)
        waves = Waves(printed, self.count.waves, 0.0, self.limit, self.peak, verdict=self.text)
        return Plan(waves=waves)

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "waves": self.count.waves,
            "most": self.count.most,
            "text": self.text,
            "slowed": dict(self.count.slowed),
            "compute_share": self.compute_share,
            "limit_bytes": self.limit,
            "peak_bytes": self.peak,
            "partitions": [
                {"device": device, **vars(profile)}
                for device, profile in zip(self.partitions.devices, self.profiles, strict=True)
            ],
        }

    def show(self) -> None:
        """Print it."""
        titles = [
            "partition",
            "device",
            "forward",
            "backward",
            "resident",
            "kept",
            "besides",
            "sends",
            "gradients",
        ]
        print_table("a batch alone, by partition", titles, [self._row(i) for i in range(len(self.profiles))])
        console.print(self.text, soft_wrap=True)
        console.print(f"number of waves: {self.count.waves}")

    def _row(self, number: int) -> tuple[object, ...]:
        one = self.profiles[number]
        sizes = (one.resident_bytes, one.kept_bytes, one.scratch_bytes, one.sent_bytes, one.gradient_bytes)
        seconds = (milliseconds(one.forward_seconds), milliseconds(one.backward_seconds))
        return (number, short_device(self.partitions.devices[number]), *seconds, *map(in_words, sizes))

    @property
    def _is_shared(self) -> bool:
        return self.partitions.names[0].kind == "CPU"

    def _traced(self, device: str) -> str:
        """Its full name."""
        asked = parse_device(device)
        for name in memory_devices(self.bundle):
            if asked.matches(parse_device(name)):
                return name
        raise BundleError(
            f"the traces tell nothing of the memory of '{device}', which holds weights: trace it, too"
        )
