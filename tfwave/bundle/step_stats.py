"""Reading what TensorFlow traced of one step."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tfwave.graph.names import Channel
from tfwave.proto.tensorflow_pb2 import NodeExecStats, StepStats

TRANSFER_EVENT = "RecvTensor"
"""What TensorFlow calls each arrival; all other events are runs of ops."""
_LABEL = re.compile(
    r"(?:\[[^]]*\] )*(?P<edge>edge_.+) from (?P<source>\S+) to (?P<destination>\S+)", re.DOTALL
)


@dataclass(frozen=True)
class TransferRecord:
    """One traced arrival: its wire name, bytes, and start and end in seconds since the step's first event.

    The start is when the sender had the tensor, so queueing on the link is part of the time.
    """

    edge: str
    channel: Channel
    bytes: int
    start_seconds: float
    end_seconds: float


def op_seconds(stats: StepStats) -> Iterator[tuple[tuple[str, str], float]]:
    """((device, node), seconds of the kernel) of each op that ran."""
    for device, event in _events(stats):
        if event.node_name != TRANSFER_EVENT:
            yield (device, event.node_name), _kernel_seconds(event)


def transfer_records(stats: StepStats) -> list[TransferRecord]:
    """The transfers that were traced, by end; TensorFlow may lose some."""
    origin = first_micros(stats)
    records = [
        record
        for _, event in _events(stats)
        if event.node_name == TRANSFER_EVENT and (record := _record(event, origin)) is not None
    ]
    return sorted(records, key=lambda r: (r.end_seconds, r.edge, r.channel))


def op_spans(stats: StepStats) -> dict[str, tuple[float, float]]:
    """When the first op of each device began and the last one ended, in seconds since the step's first event."""
    origin = first_micros(stats)
    found: dict[str, tuple[float, float]] = {}
    for device, event in _events(stats):
        if event.node_name != TRANSFER_EVENT:
            begin = (event.all_start_micros - origin) / 1e6
            first, last = found.get(device, (math.inf, -math.inf))
            found[device] = min(first, begin), max(last, begin + event.all_end_rel_micros / 1e6)
    return found


def first_micros(stats: StepStats) -> int:
    """When the first event of a step began, on the clock of its task."""
    return min((e.all_start_micros for _, e in _events(stats) if e.all_start_micros), default=0)


def _events(stats: StepStats) -> Iterator[tuple[str, NodeExecStats]]:
    for device in stats.dev_stats:
        for event in device.node_stats:
            yield device.device, event


def _kernel_seconds(event: NodeExecStats) -> float:
    nanos = event.op_end_rel_nanos - event.op_start_rel_nanos
    return nanos / 1e9 if nanos > 0 else max(0, event.op_end_rel_micros - event.op_start_rel_micros) / 1e6


def _record(event: NodeExecStats, origin: int) -> TransferRecord | None:
    match = _LABEL.fullmatch(event.timeline_label)
    if not match:
        return None
    size = sum(o.tensor_description.allocation_description.requested_bytes for o in event.output)
    start = (event.all_start_micros - origin) / 1e6
    channel = Channel(match["source"], match["destination"])
    return TransferRecord(match["edge"], channel, size, start, start + event.all_end_rel_micros / 1e6)
