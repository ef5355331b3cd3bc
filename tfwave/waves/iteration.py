"""How long an iteration of the cycle table takes, simulated."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

from tfwave.cost.analytic import LinkModel
from tfwave.cost.cluster import UNLIMITED
from tfwave.cost.model import vetted
from tfwave.errors import PlanError
from tfwave.plan.discipline import Discipline
from tfwave.rewrite.waves.cycles import CycleTable, Direction, Work, device_of
from tfwave.sim.engine import Lane
from tfwave.waves.tasks import TaskList

WARMUP, MEASURED, COOLDOWN = 2, 4, 1
"""Iterations: those that fill the devices, those that count, and those that still slow them."""


@dataclass(frozen=True)
class Partition:
    """One part of a model, with what a batch's pass through it takes alone on a device.

    Attributes:
        forward_seconds: of its forward pass.
        backward_seconds: of its backward pass.
        resident_bytes: of its variables and the optimizer's, as long as a device holds it.
        kept_bytes: of the activations held from the forward pass until the backward pass is done.
        scratch_bytes: held besides, only while a pass runs.
        sent_bytes: what a batch hands on to the next partition; as many bytes of gradients come back.
        gradient_bytes: what its all-reduce exchanges.

    Raises:
        CostError: the seconds are negative, infinite or not a number.
        PlanError: bytes are negative.
    """

    forward_seconds: float
    backward_seconds: float
    resident_bytes: int = 0
    kept_bytes: int = 0
    scratch_bytes: int = 0
    sent_bytes: int = 0
    gradient_bytes: int = 0

    def __post_init__(self) -> None:
        """Refuse what no pass can take."""
        vetted(self.forward_seconds, "a partition's forward pass")
        vetted(self.backward_seconds, "a partition's backward pass")
        for name in ("resident_bytes", "kept_bytes", "scratch_bytes", "sent_bytes", "gradient_bytes"):
            if getattr(self, name) < 0:
                raise PlanError(f"{name} of a partition is {getattr(self, name)}: give 0 or more")

    def seconds(self, direction: Direction) -> float:
        """Of a pass."""
        return self.forward_seconds if direction is Direction.FORWARD else self.backward_seconds


@dataclass(frozen=True)
class Machine:
    """What the devices have between them.

    Attributes:
        link: each device's card, sending and receiving at once.
        compute_units: how many passes run at once without slowing each other: no limit where each device has its
            own; where all share the cores of one machine, those over the cores that a pass keeps busy.
        switch_seconds: what a device takes to turn to another partition than it ran last.

    Raises:
        CostError: `switch_seconds` is negative, infinite or not a number.
        PlanError: less than one compute unit.
    """

    link: LinkModel = UNLIMITED
    compute_units: float = inf
    switch_seconds: float = 0.0

    def __post_init__(self) -> None:
        """Refuse a machine on which nothing runs."""
        vetted(self.switch_seconds, "the switch to another partition")
        if not self.compute_units >= 1:
            raise PlanError(f"{self.compute_units} compute units do not run one pass: give 1 or more")

    def all_reduce_seconds(self, size: int, devices: int) -> float:
        """Of a ring: each device sends a part to the next, twice for each other device."""
        return 2 * (devices - 1) * self.link.seconds(-(-size // devices))


def iteration_seconds(table: CycleTable, partitions: Sequence[Partition], machine: Machine) -> float:
    """Seconds from iteration to iteration, once the devices are under way.

    Devices keep to the table's order, but no device waits for a cycle to end: only for its batch to arrive, and for
    the partition to be updated. Transfers and all-reduces run beside the passes and share the devices' cards.

    Raises:
        PlanError: not one profile for each partition.
        CostError: the seconds of all passes sum to too much or too little.
    """
    if len(partitions) != table.partitions:
        raise PlanError(f"{len(partitions)} profiles for {table.partitions} partitions: give one for each")
    run = _Iterations(table, partitions, machine)
    lasts = [run.add() for _ in range(WARMUP + MEASURED + COOLDOWN)]
    ends = run.tasks.ends()
    done = [max(ends[task] for task in last) for last in lasts]
    return (done[WARMUP + MEASURED - 1] - done[WARMUP - 1]) / MEASURED


@dataclass
class _Iterations:
    """Iteration after iteration, as tasks: `updated` is what each partition's next forward pass waits for."""

    table: CycleTable
    partitions: Sequence[Partition]
    machine: Machine
    updated: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    turned: dict[int, int] = field(default_factory=dict[int, int])
    """The partition that each device ran last."""

    def __post_init__(self) -> None:
        count = self.table.partitions
        around = range(count)
        pairs = sorted({(d, (d + step) % count) for d in around for step in (1, -1)}) if count > 1 else []
        self.wires = {pair: count + number for number, pair in enumerate(pairs)}
        self.ring = count + len(pairs)
        own, shared, cards = 0, count, count + 1
        devices = [Lane(Discipline.COUNTER, ports=(own + d, shared)) for d in around]
        wires = [Lane(ports=(cards + source, cards + count + target)) for source, target in pairs]
        ring = Lane(ports=tuple(range(cards, cards + 2 * count)))
        bandwidths = [1.0] * count + [self.machine.compute_units] + [1.0] * 2 * count
        self.tasks = TaskList([*devices, *wires, ring], bandwidths)

    def add(self) -> list[int]:
        """The tasks of one iteration; those with which it ends."""
        arrived: dict[int, list[int]] = {wave: [] for wave in range(self.table.waves)}
        passed: dict[int, list[int]] = {partition: [] for partition in range(len(self.partitions))}
        for work in self.table.works:
            waits = arrived[work.wave]
            if work.direction is Direction.FORWARD:
                waits = [*waits, *self.updated.get(work.partition, [])]
            task = self.tasks.add(work.device, self._seconds(work), waits)
            arrived[work.wave] = [self._sent(work, task)]
            if work.direction is Direction.BACKWARD:
                passed[work.partition].append(task)
        self.updated = passed
        for reduce in self.table.all_reduces:
            size = self.partitions[reduce.partition].gradient_bytes
            seconds = self.machine.all_reduce_seconds(size, len(reduce.devices))
            self.updated[reduce.partition] = [self.tasks.add(self.ring, seconds, passed[reduce.partition])]
        return [task for tasks in self.updated.values() for task in tasks]

    def _seconds(self, work: Work) -> float:
        switches = self.turned.get(work.device, work.partition) != work.partition
        self.turned[work.device] = work.partition
        seconds = self.partitions[work.partition].seconds(work.direction)
        return seconds + (self.machine.switch_seconds if switches else 0.0)

    def _sent(self, work: Work, task: int) -> int:
        """What the wave's next pass waits for: the transfer, or the pass itself where nothing is sent."""
        onward = work.partition + (1 if work.direction is Direction.FORWARD else -1)
        if not 0 <= onward < len(self.partitions):
            return task
        seconds = self.machine.link.seconds(self.partitions[min(work.partition, onward)].sent_bytes)
        wire = self.wires[work.device, device_of(len(self.partitions), onward, work.wave)]
        return self.tasks.add(wire, seconds, [task])
