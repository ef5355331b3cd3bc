"""A GPipe-like pipeline, simulated beside the waves of `waves.py`: one batch cut into micro-batches."""

from collections.abc import Sequence

from tfwave.plan.discipline import Discipline
from tfwave.rewrite.waves.cycles import Direction
from tfwave.sim.engine import Lane
from tfwave.waves.iteration import Machine, Partition
from tfwave.waves.tasks import TaskList

MICRO_FOR_EACH_DEVICE = 4
"""Micro-batches, as GPipe takes them: with so many, devices idle for little of the time."""
LAUNCH_SHARE = 0.04
"""Of a partition's pass with the whole batch, what a pass with any micro-batch takes at the least."""


def pipeline_seconds(
    partitions: Sequence[Partition], machine: Machine, micro: int, launch_share: float
) -> float:
    """Of one step: all micro-batches forward, then backward, the last one first; each partition on its own device.

    A pass takes `launch_share` of that of the whole batch whatever its size, and its part of the rest. Updates wait
    for all gradients, so the next step begins when the pipeline has run empty.

    Raises:
        CostError: the seconds of all passes sum to too much or too little.
    """
    count = len(partitions)
    around = range(count - 1)
    wires = {(p, p + 1): count + p for p in around} | {(p + 1, p): 2 * count - 1 + p for p in around}
    lanes = [*[Lane(Discipline.COUNTER)] * count, *[Lane()] * len(wires)]
    tasks = TaskList(lanes, [])
    share = launch_share + (1 - launch_share) / micro

    def through(order: Sequence[int], direction: Direction, before: list[int]) -> int:
        """One micro-batch, from partition to partition; the task of its last pass."""
        passed = 0
        for here, onward in zip(order, [*order[1:], None], strict=True):
            passed = tasks.add(here, share * partitions[here].seconds(direction), before)
            if onward is not None:
                sent = partitions[min(here, onward)].sent_bytes // micro
                before = [tasks.add(wires[here, onward], machine.link.seconds(sent), [passed])]
        return passed

    forward = list(range(count))
    turned = [through(forward, Direction.FORWARD, []) for _ in range(micro)]
    for last in reversed(turned):
        through(forward[::-1], Direction.BACKWARD, [last])
    return max(tasks.ends())
