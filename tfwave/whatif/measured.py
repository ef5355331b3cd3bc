"""The timeline of a captured step: the median of those that were traced."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator

from tfwave.bundle.bundle import Bundle
from tfwave.bundle.links import service_seconds
from tfwave.bundle.step_stats import op_seconds
from tfwave.cost.model import WIRE_OPS
from tfwave.proto.tensorflow_pb2 import StepStats
from tfwave.sim.timeline import Interval, Kind, Timeline

_TRANSFER = "RecvTensor"

_What = tuple[str, str, Kind, int]
"""Resource, name, kind and bytes."""


def measured_timeline(bundle: Bundle) -> Timeline:
    """Each op at the medians of its begin and of its seconds, since the first event of a step.

    An op that runs several times in a step begins with its first run and takes the seconds of all. A transfer
    begins when its channel starts to work on it, and takes the mean: single times say little, but means add up
    to what the channel worked. What took no time, and sends and receives as ops, are left out.
    """
    wire = {(node.device, node.name) for node in bundle.view.nodes if node.op in WIRE_OPS}
    seen: dict[_What, list[tuple[float, float]]] = defaultdict(list)
    finishes: list[float] = []
    for stats, records in zip(bundle.steps, bundle.records, strict=True):
        found = dict(_ops(stats))
        for what in [what for what in found if what[:2] in wire]:
            del found[what]
        for record, seconds in service_seconds(records):
            what = (str(record.channel), record.edge, "transfer", record.bytes)
            found[what] = (record.end_seconds - seconds, seconds)
        for what, times in found.items():
            seen[what].append(times)
        finishes.append(max((begin + seconds for begin, seconds in found.values()), default=0.0))
    intervals = tuple(sorted(_medians(seen.items())))
    servers = {interval.resource: 1 for interval in intervals}
    return Timeline(intervals, statistics.median(finishes), dict(sorted(servers.items())))


def _ops(stats: StepStats) -> Iterator[tuple[_What, tuple[float, float]]]:
    """Begin and seconds of each op of a step."""
    events = [e for device in stats.dev_stats for e in device.node_stats]
    origin = min((e.all_start_micros for e in events if e.all_start_micros), default=0)
    begins = [
        (e.all_start_micros + e.op_start_rel_micros - origin) / 1e6
        for e in events
        if e.node_name != _TRANSFER
    ]
    runs: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for (op, seconds), begin in zip(op_seconds(stats), begins, strict=True):
        runs[op].append((max(0.0, begin), seconds))
    for (device, name), times in runs.items():
        yield (device, name, "op", 0), (min(times)[0], sum(seconds for _, seconds in times))


def _medians(seen: Iterable[tuple[_What, list[tuple[float, float]]]]) -> Iterator[Interval]:
    for (resource, name, kind, size), times in seen:
        typical = statistics.median if kind == "op" else statistics.fmean
        begin = statistics.median(begin for begin, _ in times)
        seconds = typical([seconds for _, seconds in times])
        if seconds > 0:
            yield Interval(begin, begin + seconds, resource, name, kind, size)
