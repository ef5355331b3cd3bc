"""A step whose transfers wait for the arrival of earlier ones: what `ack_window` makes of it."""

from collections.abc import Sequence
from dataclasses import replace

from tfwave.sim.engine import UNTIMED
from tfwave.sim.job import CompiledJob


def acknowledged(
    job: CompiledJob, channels: Sequence[Sequence[int]], window: int, seconds: float
) -> CompiledJob:
    """A job of whose channels at most `window` transfers are under way.

    Args:
        job: what is done otherwise.
        channels: the transfers of each, by their index among `job.transfers.data`, in their order.
        window: as the pass has it, 1 or more.
        seconds: from the arrival of a transfer to when its sender lets another one go.
    """
    data, kernel = job.transfers.data, job.kernel
    waits = [
        (data[earlier].recv, data[later].recv)
        for order in channels
        for earlier, later in zip(order, order[window:], strict=False)
    ]
    successors, pending = [list(targets) for targets in kernel.successors], list(kernel.pending)
    for ack, (earlier, later) in enumerate(waits, len(kernel.units)):
        successors[earlier].append(ack)
        pending[later] += 1
    longer = replace(
        kernel,
        units=[*kernel.units, *[UNTIMED] * len(waits)],
        durations=[*kernel.durations, *[job.ticks.of(seconds)] * len(waits)],
        successors=[*successors, *([later] for _, later in waits)],
        pending=[*pending, *[1] * len(waits)],
    )
    return replace(job, kernel=longer)
