"""How many waves to run in model parallel training (Wavelet, appendix B.2)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tfwave.errors import PlanError
from tfwave.memory.slots import room
from tfwave.rewrite.waves.cycles import CycleTable, Direction, cycle_table
from tfwave.sizes import in_words
from tfwave.waves.iteration import Machine, Partition, iteration_seconds

_ROUNDING = 1e-9


@dataclass(frozen=True)
class WaveCount:
    """How many waves, and why.

    Attributes:
        waves: the number to run, the tick wave included.
        most: the largest number that fits the memory.
        slowed: (waves, by what share the tick wave is slower than alone) of each number that was tried, from `most`
            down to `waves`.
    """

    waves: int
    most: int
    slowed: tuple[tuple[int, float], ...]


def device_peaks(table: CycleTable, partitions: Sequence[Partition]) -> tuple[int, ...]:
    """The most bytes that each device holds: its partitions, and the activations of what it has under way."""
    return tuple([_peak(table, partitions, device) for device in range(table.partitions)])


def most_waves(partitions: Sequence[Partition], limit_bytes: int) -> int:
    """The largest number of waves with which each device keeps to the limit, with the margin of what runs alone.

    Raises:
        PlanError: no partition, or one wave alone does not fit.
    """
    usable = room(limit_bytes, 1)
    for waves in range(len(partitions), 0, -1):
        if max(device_peaks(cycle_table(len(partitions), waves), partitions)) <= usable:
            return waves
    largest = max(device_peaks(cycle_table(len(partitions), 1), partitions))
    raise PlanError(
        f"one wave alone peaks at {in_words(largest)} on a device, and of the limit of {in_words(limit_bytes)}, "
        f"{in_words(usable)} are left by the margin: cut the model into more partitions, or raise the limit"
    )


def slowed_at_most(most: int, share: float, tick_seconds: Callable[[int], float]) -> WaveCount:
    """The largest number of waves, from `most` down, that slows the tick wave by no more than a share.

    `tick_seconds` says how long the tick wave's iteration takes beside how many waves: a model, or a second
    round of profiling, as in the paper.

    Raises:
        PlanError: `share` is below 0 or not a number, or `most` is below 1.
    """
    if not share >= 0:
        raise PlanError(f"the tick wave may be slowed by {share}: give a share of 0 or more")
    if most < 1:
        raise PlanError(f"{most} waves are none: give 1 or more")
    alone = tick_seconds(1)
    slowed: list[tuple[int, float]] = []
    for waves in range(most, 0, -1):
        slowed.append((waves, tick_seconds(waves) / alone - 1 if alone else 0.0))
        if slowed[-1][1] <= share + _ROUNDING:
            break
    return WaveCount(slowed[-1][0], most, tuple(slowed))


def count_waves(
    partitions: Sequence[Partition], machine: Machine, limit_bytes: int, share: float
) -> WaveCount:
    """The largest number of waves that fits and slows the tick wave by no more than a share, as simulated.

    Raises:
        PlanError: as `most_waves` and `slowed_at_most`.
        CostError: the seconds of all passes sum to too much or too little.
    """

    def tick_seconds(waves: int) -> float:
        return iteration_seconds(cycle_table(len(partitions), waves), partitions, machine)

    return slowed_at_most(most_waves(partitions, limit_bytes), share, tick_seconds)


def _peak(table: CycleTable, partitions: Sequence[Partition], device: int) -> int:
    held = highest = sum(partitions[partition].resident_bytes for partition in table.held_by(device))
    for work in table.on(device):
        partition = partitions[work.partition]
        if work.direction is Direction.FORWARD:
            held += partition.kept_bytes
        highest = max(highest, held + partition.scratch_bytes)
        if work.direction is Direction.BACKWARD:
            held -= partition.kept_bytes
    return highest
