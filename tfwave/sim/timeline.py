"""What ran when: one step, simulated or measured."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from operator import attrgetter
from typing import Any, Literal

from tfwave.sim.chrome import Row, span

Kind = Literal["op", "transfer", "control"]


@dataclass(frozen=True, order=True)
class Interval:
    """Something that took time on a resource: an op on its device, or a transfer on its channel.

    A transfer ends when its last byte has left; it has arrived a latency later. Ops go by the name of their node,
    transfers by their edge.
    """

    begin_seconds: float
    end_seconds: float
    resource: str
    name: str
    kind: Kind
    bytes: int = 0

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.end_seconds - self.begin_seconds


BY_TIME = attrgetter("begin_seconds", "end_seconds", "resource", "name", "kind", "bytes")
"""How intervals are ordered; to sort by it takes a third of the time that it takes to compare them."""


@dataclass(frozen=True)
class Timeline:
    """One step, from 0 to `makespan_seconds`.

    `servers` says how many intervals a resource can hold at one time (ops: the threads of the device; transfers
    of a channel: 1).
    """

    intervals: tuple[Interval, ...]
    """By begin, end, resource and name."""
    makespan_seconds: float
    servers: Mapping[str, int]

    def chrome_events(self, title: str) -> Iterator[dict[str, Any]]:
        """Events for `chrome.trace_text`: one process a resource, as many threads as it had at work at one time."""
        for interval, thread in in_rows(self.intervals):
            row = Row(f"{title}: {interval.resource}", thread)
            args = {"bytes": interval.bytes} if interval.bytes else None
            yield span(row, interval.name, interval.begin_seconds, interval.seconds, args)


def in_rows(intervals: Iterable[Interval]) -> Iterator[tuple[Interval, int]]:
    """Each interval, by begin, with the lowest row of its resource that is free when it begins."""
    busy: dict[str, list[tuple[float, int]]] = defaultdict(list)
    free: dict[str, list[int]] = defaultdict(list)
    for interval in sorted(intervals, key=BY_TIME):
        ends, rows = busy[interval.resource], free[interval.resource]
        while ends and ends[0][0] <= interval.begin_seconds:
            heappush(rows, heappop(ends)[1])
        row = heappop(rows) if rows else len(ends)
        heappush(ends, (interval.end_seconds, row))
        yield interval, row
