"""Traced steps, each judged by its own times: efficiency as TicTac section 3.2 defines it."""

import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tfwave.bundle.bundle import Bundle
from tfwave.bundle.links import service_seconds
from tfwave.bundle.step_stats import TransferRecord, op_seconds, op_spans
from tfwave.graph.names import Channel
from tfwave.graph.transfer import Transfer
from tfwave.graph.view import RECV_OPS
from tfwave.order.bounds import Bounds
from tfwave.planner.workers import pulling_devices

MOST_LOST = 0.1
"""Of the transfers of a step on one worker, so many may have no event: TensorFlow loses some, and at times all."""


@dataclass(frozen=True)
class Iteration:
    """One traced step of one worker: its makespan in seconds, and U and L of what ran in this very step.

    The worker's resources are its compute device and its two directions of the network. Of `bounds` U is the sum of
    what they worked, L the most that one of them did: kernels, and the time in which anything was on the way.
    """

    step: int
    device: str
    seconds: float
    bounds: Bounds

    @property
    def efficiency(self) -> float:
        """E: 1 where the busiest resource never waited, 0 where one worked at a time, below 0 if at times none."""
        return self.bounds.efficiency(self.seconds)


def traced_iterations(bundle: Bundle) -> tuple[Iteration, ...]:
    """Of each traced step and worker, by step, then by device; without those of which too much was lost.

    What workers send each other, such as results to the one that fetches them, is left out.
    """
    pulling = pulling_devices(bundle.view, bundle.transfers.data)
    own = {device: _own_transfers(bundle, device, pulling) for device in sorted(pulling)}
    found = [
        _iteration(bundle, step, device, transfers)
        for step in range(len(bundle.steps))
        for device, transfers in own.items()
    ]
    return tuple([iteration for iteration in found if iteration is not None])


def explained(iterations: Sequence[Iteration]) -> float:
    """R2 of the line that tells step times from E (TicTac section 6.2); `nan` where either does not vary.

    Near 1, orders are what makes steps differ; what is left are ops and links that took longer themselves.
    """
    try:
        return (
            statistics.correlation([i.efficiency for i in iterations], [i.seconds for i in iterations]) ** 2
        )
    except statistics.StatisticsError:
        return math.nan


def _own_transfers(bundle: Bundle, device: str, pulling: frozenset[str]) -> frozenset[Transfer]:
    """Those between a worker and servers."""
    ends = ((t, {t.channel.source, t.channel.destination}) for t in bundle.transfers.data)
    return frozenset(t for t, both in ends if both & pulling == {device})


def _iteration(bundle: Bundle, step: int, device: str, own: frozenset[Transfer]) -> Iteration | None:
    records = [r for r in bundle.records[step] if bundle.transfer_of(r) in own]
    spans = op_spans(bundle.steps[step])
    if device not in spans or len(records) < (1 - MOST_LOST) * len(own):
        return None
    first, last = spans[device]
    begin = min([first, *(r.start_seconds for r in records)])
    end = max([last, *(r.end_seconds for r in records)])
    worked = [_compute_seconds(bundle, step, device), *_card_seconds(records, device)]
    return Iteration(step, device, end - begin, Bounds(math.fsum(worked), max(worked)))


def _compute_seconds(bundle: Bundle, step: int, device: str) -> float:
    """Of the kernels on a device; a receiver only waits."""
    waiting = {n.name for n in bundle.view.nodes if n.device == device and n.op in RECV_OPS}
    ops = op_seconds(bundle.steps[step])
    return math.fsum(seconds for (at, name), seconds in ops if at == device and name not in waiting)


def _card_seconds(records: Sequence[TransferRecord], device: str) -> list[float]:
    """How long anything was on the way to a device, and from it, whatever the other end."""
    of_card: dict[Channel, list[TransferRecord]] = defaultdict(list)
    for record in records:
        inward = record.channel.destination == device
        card = Channel("", device) if inward else Channel(device, "")
        of_card[card].append(replace(record, channel=card))
    return [math.fsum(seconds for _, seconds in service_seconds(own)) for own in of_card.values()]
