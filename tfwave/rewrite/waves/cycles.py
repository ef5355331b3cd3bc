"""Waves in model parallel training: who runs what in which cycle (Wavelet, section 3.3)."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from tfwave.errors import PlanError


class Direction(StrEnum):
    """Of a pass through a partition."""

    FORWARD = "F"
    BACKWARD = "B"


@dataclass(frozen=True, order=True)
class Work:
    """What a device runs in a cycle: the pass of one wave's batch through one partition.

    All are numbers from 0. Wave 0 is the paper's tick wave, the others are its tock waves; each has a batch of its
    own.
    """

    cycle: int
    device: int
    direction: Direction
    partition: int
    wave: int

    def __str__(self) -> str:
        """``F2,1``: forward, partition 2, batch 1, as in the paper's figure 10."""
        return f"{self.direction}{self.partition},{self.wave}"


@dataclass(frozen=True)
class AllReduce:
    """The exchange of a partition's gradients between the batches.

    Attributes:
        partition: its number.
        after: the cycle in which the last of them is made.
        before: the cycle of the next iteration, counted on from this one's, that needs the partition updated.
        devices: those that hold the partition, by number.
    """

    partition: int
    after: int
    before: int
    devices: tuple[int, ...]


@dataclass(frozen=True)
class CycleTable:
    """One iteration of all waves: as many devices as partitions; works by cycle, then by device."""

    partitions: int
    waves: int
    works: tuple[Work, ...]
    all_reduces: tuple[AllReduce, ...]

    @property
    def cycles(self) -> int:
        """Of an iteration: each partition forward, then backward."""
        return 2 * self.partitions

    def on(self, device: int) -> tuple[Work, ...]:
        """What a device runs, in its order."""
        return tuple([work for work in self.works if work.device == device])

    def held_by(self, device: int) -> tuple[int, ...]:
        """The partitions that a device runs, and so must hold or load."""
        return tuple(sorted({work.partition for work in self.works if work.device == device}))

    def rows(self) -> Iterator[tuple[str, ...]]:
        """To print: titles, then per cycle its number, what each device runs, and what is reduced after it."""
        yield "cycle", *(f"device {device}" for device in range(self.partitions)), "then all-reduce"
        cells = {(work.cycle, work.device): str(work) for work in self.works}
        reduced = {reduce.after: str(reduce.partition) for reduce in self.all_reduces}
        for cycle in range(self.cycles):
            runs = [cells.get((cycle, device), "-") for device in range(self.partitions)]
            yield str(cycle), *runs, reduced.get(cycle, "")


def cycle_table(partitions: int, waves: int) -> CycleTable:
    """One iteration of `waves` waves over as many devices as partitions (Wavelet, figure 10).

    Case 1: forward. In its first cycle, the device of a batch's number runs partition 0 on it. From cycle to cycle
    each device goes on to partition (p + 1) mod N and batch (b - 1) mod N: so it takes over the batch of the device
    before it.
    Case 2: backward, the same in the inverse order: a batch passes each partition where it did forward, where its
    activations are.
    Case 3: with fewer waves than partitions, the devices of the batches that are missing idle.
    Case 4: all batches pass a partition in the same cycle, so its all-reduce follows at once. One wave has none.

    Raises:
        PlanError: no partition, no wave, or more waves than partitions.
    """
    if partitions < 1:
        raise PlanError(f"{partitions} partitions make no model: give one or more")
    if not 1 <= waves <= partitions:
        raise PlanError(f"{waves} waves do not fit {partitions} partitions: give 1 to {partitions} waves")
    works = [
        _work(partitions, cycle, device)
        for cycle in range(2 * partitions)
        for device in range(partitions)
        if _work(partitions, cycle, device).wave < waves
    ]
    reduces = [_all_reduce(partitions, waves, partition) for partition in reversed(range(partitions))]
    return CycleTable(partitions, waves, tuple(works), tuple(reduces) if waves > 1 else ())


def device_of(partitions: int, partition: int, wave: int) -> int:
    """Where a wave's batch passes a partition, in both directions."""
    return (wave + partition) % partitions


def _work(partitions: int, cycle: int, device: int) -> Work:
    is_forward = cycle < partitions
    partition = cycle if is_forward else 2 * partitions - 1 - cycle
    direction = Direction.FORWARD if is_forward else Direction.BACKWARD
    return Work(cycle, device, direction, partition, (device - partition) % partitions)


def _all_reduce(partitions: int, waves: int, partition: int) -> AllReduce:
    devices = sorted(device_of(partitions, partition, wave) for wave in range(waves))
    cycles = 2 * partitions
    return AllReduce(partition, cycles - 1 - partition, cycles + partition, tuple(devices))
