"""Traced steps, each judged by its own times: efficiency as TicTac section 3.2 defines it."""

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tfwave.bundle.bundle import Bundle
from tfwave.bundle.links import service_seconds
from tfwave.bundle.step_stats import TransferRecord, op_runs
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

    The worker's resources are its compute device and its two directions of the network. Each worked while any
    kernel ran, or anything was on the way: a device with several cores is one resource. Of `bounds` U is the sum of
    these times, L the longest.
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
    expected = Counter(_workers(bundle, pulling).values())
    found = [
        _iteration(number, device, own, expected[device])
        for number, step in enumerate(traced_work(bundle, pulling))
        for device, own in ((device, step[device]) for device in sorted(pulling))
    ]
    return tuple([iteration for iteration in found if iteration is not None])


def explained(iterations: Sequence[Iteration]) -> float:
    """R2 of the line that tells step times from E (TicTac section 6.2); `nan` where either does not vary.

    Near 1, orders are what makes steps differ; what is left are ops and links that took longer themselves.
    """
    return _told_by_efficiency(iterations, [i.seconds for i in iterations])


def explained_normalized(iterations: Sequence[Iteration]) -> float:
    """The same of step times over their own L: ops and links that took longer themselves are no noise there.

    The paper's figure 12 (a) has normalized step times, too, but does not say by what.
    """
    return _told_by_efficiency(iterations, [i.seconds / i.bounds.lower_seconds for i in iterations])


@dataclass(frozen=True)
class Work:
    """Of one device in a traced step: its kernels, from when until when each ran, by begin, and its transfers."""

    runs: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    records: list[TransferRecord] = field(default_factory=list[TransferRecord])


def traced_work(bundle: Bundle, pulling: frozenset[str]) -> list[Mapping[str, Work]]:
    """Of each step what each device did; a receiver only waits. Transfers are those between workers and servers."""
    workers = _workers(bundle, pulling)
    waiting = {(n.device, n.name) for n in bundle.view.nodes if n.op in RECV_OPS}
    steps: list[Mapping[str, Work]] = []
    for stats, records in zip(bundle.steps, bundle.records, strict=True):
        step: dict[str, Work] = defaultdict(Work)
        for op, run in op_runs(stats):
            if op not in waiting:
                step[op[0]].runs.append(run)
        for record in records:
            transfer = bundle.transfer_of(record)
            if transfer in workers:
                step[workers[transfer]].records.append(record)
        for work in step.values():
            work.runs.sort()
        steps.append(step)
    return steps


def _workers(bundle: Bundle, pulling: frozenset[str]) -> dict[Transfer, str]:
    """Of each transfer between a worker and a server: the worker."""
    ends = ((t, {t.channel.source, t.channel.destination} & pulling) for t in bundle.transfers.data)
    return {transfer: worker for transfer, found in ends if len(found) == 1 for worker in found}


def _told_by_efficiency(iterations: Sequence[Iteration], times: Sequence[float]) -> float:
    try:
        return statistics.correlation([i.efficiency for i in iterations], times) ** 2
    except statistics.StatisticsError:
        return math.nan


def _iteration(step: int, device: str, own: Work, expected: int) -> Iteration | None:
    if not own.runs or len(own.records) < (1 - MOST_LOST) * expected:
        return None
    begin = min([own.runs[0][0], *(r.start_seconds for r in own.records)])
    end = max([*(until for _, until in own.runs), *(r.end_seconds for r in own.records)])
    worked = [_busy_seconds(own.runs), *_card_seconds(own.records, device)]
    return Iteration(step, device, end - begin, Bounds(math.fsum(worked), max(worked)))


def _busy_seconds(runs: Sequence[tuple[float, float]]) -> float:
    """How long any of them ran."""
    busy, done = 0.0, -math.inf
    for begin, end in runs:
        busy += max(0.0, end - max(begin, done))
        done = max(done, end)
    return busy


def _card_seconds(records: Sequence[TransferRecord], device: str) -> list[float]:
    """How long anything was on the way to a device, and from it, whatever the other end."""
    of_card: dict[Channel, list[TransferRecord]] = defaultdict(list)
    for record in records:
        inward = record.channel.destination == device
        card = Channel("", device) if inward else Channel(device, "")
        of_card[card].append(replace(record, channel=card))
    return [math.fsum(seconds for _, seconds in service_seconds(own)) for own in of_card.values()]
