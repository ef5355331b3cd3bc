"""Floors under the makespan of every order: one-machine bounds with heads and tails, in ticks.

A head is a time before which a node cannot start, a tail a time that must pass after its end. Tails are the
heads of the graph with all edges turned round, so one pass serves both.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush

import numpy as np

from tfwave.cost.ticks import NEVER
from tfwave.graph.view import GraphView, transposed
from tfwave.order.deps import membership

BUSIEST = "busiest resource"


@dataclass(frozen=True)
class Load:
    """What takes time: of each compute resource and each channel, the ticks of its nodes."""

    compute: Sequence[Mapping[int, int]]
    channels: Sequence[Mapping[int, int]]

    @property
    def resources(self) -> Iterator[Mapping[int, int]]:
        """All of them."""
        yield from self.compute
        yield from self.channels

    @cached_property
    def transfers(self) -> list[int]:
        """The nodes of all channels, one channel after the other."""
        return [node for channel in self.channels for node in channel]

    @cached_property
    def ticks(self) -> dict[int, int]:
        """Of each node that takes part."""
        return {node: ticks for resource in self.resources for node, ticks in resource.items()}


def find_floors(view: GraphView, load: Load) -> dict[str, int]:
    """The floors by name, in ticks; see `find_bounds`."""
    forward, backward = _both_ways(view)
    heads, tails = _paths(forward, load), _paths(backward, load)
    queued_heads, queued_tails = _queued_both_ways(forward, backward, load)
    return {
        BUSIEST: max((sum(resource.values()) for resource in load.resources), default=0),
        "critical path": max((heads[n] + t + tails[n] for n, t in load.ticks.items()), default=0),
        "release times": _alone(load, heads, tails),
        "pull then push": _alone(load, queued_heads, queued_tails),
    }


def queued_tails(view: GraphView, load: Load) -> list[int]:
    """Per node: ticks that must pass after its end, in whatever order."""
    return _queued_both_ways(*_both_ways(view), load)[1]


@dataclass(frozen=True)
class _Way:
    """The graph in one direction: nodes in an order in which fanins come first."""

    order: Sequence[int]
    fanins: Sequence[Sequence[int]]

    def upstream(self, sources: Iterable[int]) -> list[int]:
        """Per node: the set of the sources (bit i: the i-th) that are before it; its own bit left out."""
        own = {node: 1 << bit for bit, node in enumerate(sources)}
        before = [0] * len(self.order)
        for node in self.order:
            found = 0
            for fanin in self.fanins[node]:
                found |= before[fanin] | own.get(fanin, 0)
            before[node] = found
        return before


def _both_ways(view: GraphView) -> tuple[_Way, _Way]:
    fanins = [view.forward_fanins(node) for node in range(len(view))]
    return _Way(view.topological_order, fanins), _Way(view.topological_order[::-1], transposed(fanins))


def _paths(way: _Way, load: Load) -> list[int]:
    """The longest path to each node, without the node itself."""
    ticks = [load.ticks.get(node, 0) for node in range(len(way.order))]
    heads = [0] * len(ticks)
    for node in way.order:
        fanins = way.fanins[node]
        if fanins:
            heads[node] = max([heads[f] + ticks[f] for f in fanins])
    return heads


def _queued_both_ways(forward: _Way, backward: _Way, load: Load) -> tuple[list[int], list[int]]:
    """Heads and tails."""
    before, after = forward.upstream(load.transfers), backward.upstream(load.transfers)
    return (
        _queued(forward, _Queues(load, before), _Lots(load, after)),
        _queued(backward, _Queues(load, after), _Lots(load, before)),
    )


def _queued(way: _Way, queues: "_Queues", lots: "_Lots") -> list[int]:
    """Heads that also wait for the whole queue of each resource.

    Case 1: a node waits until each channel has carried all the transfers that are before it.
    Case 2: a transfer waits until each compute resource has run all the ops that are before it. Ops that are
    before the same transfers are one lot, which can start when the first of them can.
    """
    ticks = queues.load.ticks
    heads = [0] * len(way.order)
    ends = [0] * len(way.order)
    for node in way.order:
        head = max([ends[f] for f in way.fanins[node]], default=0)
        if node in ticks:
            head = max(head, queues.end(node), lots.end(node))
            queues.enter(node, head)
            lots.enter(node, head)
        heads[node] = head
        ends[node] = head + ticks.get(node, 0)
    return heads


class _Queues:
    """The channels' transfers; `before` says for each node which of them it waits for."""

    def __init__(self, load: Load, before: Sequence[int]) -> None:
        self.load = load
        self._before = before
        self._number = {node: i for i, node in enumerate(load.transfers)}
        self._ticks = np.array([load.ticks[node] for node in load.transfers], dtype=np.int64)
        self._heads = np.zeros(len(self._ticks), dtype=np.int64)
        self._ends = _ends(map(len, load.channels))
        sets = sorted({before[node] for node in load.ticks})
        self._members = dict(zip(sets, membership(sets, len(self._ticks)), strict=True))
        self._known = {0: 0}

    def enter(self, node: int, head: int) -> None:
        """Note when a transfer can start."""
        if node in self._number:
            self._heads[self._number[node]] = head

    def end(self, node: int) -> int:
        """The earliest time at which all transfers that a node waits for, which were entered, can be there."""
        before = self._before[node]
        if before not in self._known:
            chosen = self._members[before]
            self._known[before] = _latest_end(self._heads, self._ticks, chosen, self._ends)
        return self._known[before]


class _Lots:
    """Per compute resource, the ops that the same transfers wait for (`after`), as one piece of work."""

    def __init__(self, load: Load, after: Sequence[int]) -> None:
        self._lot_of: dict[int, int] = {}
        sets: list[int] = []
        sizes: list[int] = []
        for resource in load.compute:
            lots: dict[int, int] = {}
            for node, ticks in resource.items():
                if ticks and after[node]:
                    self._lot_of[node] = len(sets) + lots.setdefault(after[node], len(lots))
            sets += lots
            sizes.append(len(lots))
        self._ends = _ends(sizes)
        self._heads = np.full(len(sets), NEVER, dtype=np.int64)
        self._ticks = np.zeros(len(sets), dtype=np.int64)
        for node, lot in self._lot_of.items():
            self._ticks[lot] += load.ticks[node]
        columns = membership(sets, len(load.transfers)).T
        self._chosen = dict(zip(load.transfers, np.ascontiguousarray(columns), strict=True))

    def enter(self, op: int, head: int) -> None:
        """Note when an op can start."""
        lot = self._lot_of.get(op)
        if lot is not None:
            self._heads[lot] = min(head, self._heads[lot])

    def end(self, node: int) -> int:
        """The earliest time at which all ops that a transfer waits for, which were entered, can be done."""
        if node not in self._chosen:
            return 0
        return _latest_end(self._heads, self._ticks, self._chosen[node], self._ends)


def _latest_end(heads: np.ndarray, ticks: np.ndarray, chosen: np.ndarray, ends: np.ndarray) -> int:
    """When the last resource is done that has any of the chosen work; of each, the work lies up to its end."""
    there = np.flatnonzero(chosen)
    borders = np.flatnonzero(np.diff(np.searchsorted(ends, there, side="right"))) + 1
    parts = np.split(there, borders) if len(borders) else [there]
    return max([_end(heads[part], ticks[part]) for part in parts])


def _end(heads: np.ndarray, ticks: np.ndarray) -> int:
    """When one resource has done work that cannot start before its heads."""
    if not len(heads):
        return 0
    ascending = heads.argsort()
    return int((heads[ascending] + ticks[ascending][::-1].cumsum()[::-1]).max())


def _ends(sizes: Iterable[int]) -> np.ndarray:
    return np.cumsum([*sizes], dtype=np.int64)


def _alone(load: Load, heads: Sequence[int], tails: Sequence[int]) -> int:
    return max((_one_resource(resource, heads, tails) for resource in load.resources), default=0)


def _one_resource(work: Mapping[int, int], heads: Sequence[int], tails: Sequence[int]) -> int:
    """The least makespan of one resource that may interrupt its work (Jackson's preemptive schedule).

    Of what may run, that with the longest tail runs.
    """
    urgent = sorted(work, key=tails.__getitem__, reverse=True)
    left = [work[node] for node in urgent]
    starts = [heads[node] for node in urgent]
    ready: list[int] = []
    now = makespan = 0
    for rank in [*sorted(range(len(urgent)), key=starts.__getitem__), None]:
        head = NEVER if rank is None else starts[rank]
        while ready and now < head:
            first = ready[0]
            if now + left[first] > head:
                left[first] -= head - now
                now = head
            else:
                now += left[heappop(ready)]
                makespan = max(makespan, now + tails[urgent[first]])
        if rank is not None:
            now = max(now, head)
            heappush(ready, rank)
    return makespan
