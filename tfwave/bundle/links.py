"""What traced arrivals tell of channels: for how long each worked, its latency and its bandwidth."""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from tfwave.bundle.step_stats import TransferRecord
from tfwave.cost.analytic import LinkModel, fit
from tfwave.graph.names import Channel

_SMALL_BYTES = 4096
"""The time of a tensor of up to this size is latency."""

_Served = list[tuple[int, float]]
"""Bytes and service seconds of the transfers of one step on one channel."""


def channel_links(traced: Iterable[Iterable[TransferRecord]]) -> dict[Channel, LinkModel]:
    """Latency and bandwidth of each channel, fitted to all its transfers in the traced steps."""
    steps: dict[Channel, list[_Served]] = defaultdict(list)
    for records in traced:
        of_step: dict[Channel, _Served] = defaultdict(list)
        for record, seconds in service_seconds(records):
            if record.bytes:
                of_step[record.channel].append((record.bytes, seconds))
        for channel, served in of_step.items():
            steps[channel].append(served)
    return {channel: _link(of_channel) for channel, of_channel in steps.items()}


def _link(steps: Sequence[_Served]) -> LinkModel:
    """The link under which a step's transfers take, together, what they took.

    Single times say little: a tensor that ends behind another seems fast, the other slow. So the latency is
    that of the faster half of the smallest tensors, bandwidth accounts for the rest of the busy time, and the
    error is that of the busy time of a step: the mean of |predicted - measured| over the mean measured.
    """
    everything = sorted(sample for step in steps for sample in step)
    total_bytes = sum(size for size, _ in everything)
    busy = [math.fsum(seconds for _, seconds in step) for step in steps]
    small = sorted(seconds for size, seconds in everything if size <= _SMALL_BYTES)
    latency = small[len(small) // 4] if small else 0.0
    rest = math.fsum(busy) - latency * len(everything)
    if rest <= 0:
        return fit(everything)
    link = LinkModel(latency, total_bytes / rest)
    errors = [
        abs(math.fsum(link.seconds(size) for size, _ in step) - measured)
        for step, measured in zip(steps, busy, strict=True)
    ]
    return replace(link, relative_error=math.fsum(errors) / math.fsum(busy))


def service_seconds(records: Iterable[TransferRecord]) -> list[tuple[TransferRecord, float]]:
    """How long its channel worked until a transfer of a step ended: since the one before it did, or any started.

    On each channel they sum to the time in which anything was on the way.
    """
    of_channel: dict[Channel, list[TransferRecord]] = defaultdict(list)
    for record in sorted(records, key=lambda r: r.end_seconds):
        of_channel[record.channel].append(record)
    return [pair for records in of_channel.values() for pair in _served(records)]


def _served(records: Sequence[TransferRecord]) -> list[tuple[TransferRecord, float]]:
    """Of one channel's, in the order in which they ended."""
    starts = [r.start_seconds for r in records]
    begun = list(itertools.accumulate(reversed(starts), min))[::-1]  # the first of those that have yet to end
    ends = [-math.inf, *(r.end_seconds for r in records)]
    return [
        (r, max(0.0, r.end_seconds - max(start, before)))
        for r, start, before in zip(records, begun, ends, strict=False)
    ]
