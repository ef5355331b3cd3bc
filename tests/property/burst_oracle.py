"""Burst plans by looking at each there is; shares no code with the search."""

import itertools
import math
import random
from collections.abc import Iterator

import networkx as nx
import numpy as np

from tfwave.burst.costs import LayerCosts

EDGES_OF_BLOCKS = (
    ((0, 1), (0, 2), (1, 3), (2, 3)),
    ((0, 1), (0, 2), (0, 3), (1, 4), (2, 4), (3, 4)),
    ((0, 1), (1, 2), (0, 2), (2, 3)),
    ((0, 1), (1, 2), (2, 3), (0, 3)),
    ((0, 1), (1, 2), (2, 4), (0, 3), (3, 4)),
    (
        (0, 1),
        (1, 2),
        (1, 3),
        (2, 5),
        (3, 5),
        (0, 4),
        (4, 5),
    ),  # a block that ends where the one around it does
    ((0, 1), (0, 2), (2, 3), (2, 4), (3, 5), (4, 5), (1, 6), (5, 6)),  # a block inside a branch
    (
        (0, 1),
        (0, 2),
        (1, 3),
        (2, 3),
        (0, 4),
        (3, 4),
    ),  # two branches that meet before the edge beside them ends
    ((0, 1), (0, 2), (0, 3), (1, 4), (2, 4), (4, 5), (3, 5)),  # two of three that meet before all do
    ((0, 1), (0, 2), (1, 2), (2, 3), (0, 4), (3, 4)),  # a branch that ends where another one goes straight to
)
CROSSED = (
    ((0, 1), (0, 2), (1, 3), (2, 3), (2, 4), (3, 4)),
    ((0, 1), (0, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 5), (4, 5)),
)
"""Branches that share a layer, and meet only where all do."""


def random_costs(
    rng: random.Random, edges: tuple[tuple[int, int], ...], counts: tuple[int, ...]
) -> LayerCosts:
    layers = max(here for _, here in edges) + 1
    own = np.empty((layers, len(counts)))
    for layer in range(layers):
        alone, serial = 10 ** rng.uniform(0, 2), rng.choice([0.02, 0.1, 0.4, 0.9])
        gradients = alone * rng.choice([0, 0.05, 0.3, 1])
        own[layer] = [alone * (serial + (1 - serial) / k) + gradients * (k - 1) / k for k in counts]
    near, far = (np.zeros((len(edges), len(counts), len(counts))) for _ in range(2))
    for edge in range(len(edges)):
        size, wait = 10 ** rng.uniform(-1, 1.5), rng.choice([0.1, 3])
        for h, before in enumerate(counts):
            for k, here in enumerate(counts):
                far[edge, h, k] = wait + size / min(before, here)
                near[edge, h, k] = 0 if h == k else (wait + size / max(before, here)) * rng.uniform(0.5, 1)
        near[edge] = np.minimum(near[edge], far[edge])
    return LayerCosts(tuple(f"layer{n}" for n in range(layers)), counts, own, edges, near, far)


def chain(layers: int) -> tuple[tuple[int, int], ...]:
    return tuple((n, n + 1) for n in range(layers - 1))


class Oracle:
    """All plans of a graph with one limit for each layer."""

    def __init__(self, costs: LayerCosts, limit: float) -> None:
        self.costs, self.limit = costs, limit
        self.readers = {n: [b for a, b in costs.edges if a == n] for n in range(len(costs.names))}
        self.edge = {edge: number for number, edge in enumerate(costs.edges)}
        self.last = len(costs.names) - 1

    def fastest(self) -> float:
        every = itertools.product(range(len(self.costs.counts)), repeat=self.last + 1)
        return min(self.seconds(counts) for counts in every)

    def seconds(self, counts: tuple[int, ...], devices: int | None = None) -> float:
        """Of the best packing of given counts."""
        own = self.costs.own[0, counts[0]]
        if own * self.costs.counts[counts[0]] > self.limit * self.costs.own[0, 0] * (1 + 1e-9):
            return math.inf
        ways = self.way(counts, 0, self.last, 0)
        return (
            own
            + min((t for need, t in ways if need <= self.costs.counts[-1]), default=math.inf)
            + self.costs.own[self.last, counts[self.last]]
        )

    def way(self, counts: tuple[int, ...], layer: int, end: int, leave: int) -> list[tuple[int, float]]:
        """(devices needed, seconds) from behind a layer until `end` may run: of what lies between."""
        found = [(0, 0.0)]
        while layer != end:
            join = self.join(layer)
            steps = self.step(counts, layer, self.readers[layer], join, (0, leave if join == end else 0))
            own = self.costs.own[join, counts[join]] if join != end else 0.0
            size = self.costs.counts[counts[join]] if join != end else 0
            found = [(max(a, b, size), s + t + own) for a, s in found for b, t in steps]
            layer = join
        return found

    def step(self, counts, layer, firsts, join, far) -> list[tuple[int, float]]:
        """`far`: are the edges that leave the layer, and those that lead to the join?"""
        direct = self.move(counts, layer, join, int(any(far))) if join in firsts else 0.0
        branches = self.branches(firsts, join)
        if not branches:
            return [(0, direct)]
        return [
            (need, max(direct, t))
            for groups in partitions(branches)
            for near in range(len(groups))
            for need, t in self.grouped(counts, layer, join, far, groups, near)
        ]

    def grouped(self, counts, layer, join, far, groups, near) -> Iterator[tuple[int, float]]:  # noqa: PLR0917
        choices = []
        for number, group in enumerate(groups):
            ways = [
                self.branch(counts, layer, each, join, far if number == near else (1, 1)) for each in group
            ]
            choices.append(
                [
                    (self.round_up(max(n for n, _ in some)), sum(t for _, t in some))
                    for some in itertools.product(*ways)
                ]
            )
        for some in itertools.product(*choices):
            yield self.round_up(sum(n for n, _ in some)), max(t for _, t in some)

    def branch(self, counts, layer, firsts, join, far) -> list[tuple[int, float]]:
        meeting = self.meeting(firsts)
        own, size = self.costs.own[meeting, counts[meeting]], self.costs.counts[counts[meeting]]
        return [
            (max(size, a, b), s + own + t)
            for a, s in self.step(counts, layer, firsts, meeting, (far[0], 0))
            for b, t in self.way(counts, meeting, join, far[1])
        ]

    def branches(self, firsts: list[int], join: int) -> list[list[int]]:
        """Those that lead to a common layer before the join are together."""
        graph = nx.Graph()
        for first in firsts:
            if first != join:
                graph.add_edges_from((f"from {first}", layer) for layer in self.until(first, join))
        return [
            [first for first in firsts if f"from {first}" in together]
            for together in nx.connected_components(graph)
        ]

    def until(self, first: int, join: int) -> set[int]:
        """What lies on the ways from one to the join."""
        return {first}.union(*({first, *way} - self.behind(join) for way in self.all_ways(first)))

    def behind(self, layer: int) -> set[int]:
        return {layer}.union(*self.all_ways(layer))

    def meeting(self, firsts: list[int]) -> int:
        """The first layer that is on all ways from these."""
        return min(set.intersection(*({first} | way for first in firsts for way in self.all_ways(first))))

    def is_crossed(self) -> bool:
        """Do branches share a layer, and meet only where all do?"""
        return any(
            len(self.readers[layer]) > 1 and self._crosses(self.readers[layer], self.join(layer))
            for layer in range(self.last)
        )

    def _crosses(self, firsts: list[int], join: int) -> bool:
        together = [each for each in self.branches(firsts, join) if len(each) > 1]
        return any(self.meeting(each) == join or self._crosses(each, self.meeting(each)) for each in together)

    def round_up(self, devices: int) -> float:
        return min((k for k in self.costs.counts if k >= devices), default=math.inf)

    def move(self, counts: tuple[int, ...], before: int, here: int, far: int) -> float:
        table = self.costs.far if far else self.costs.near
        seconds = float(table[self.edge[before, here], counts[before], counts[here]])
        work = (seconds + self.costs.own[here, counts[here]]) * self.costs.counts[counts[here]]
        return seconds if work <= self.limit * self.costs.own[here, 0] * (1 + 1e-9) else math.inf

    def join(self, layer: int) -> int:
        """The first layer that is on all ways to the end."""
        ways = self.all_ways(layer)
        return min(set.intersection(*ways))

    def all_ways(self, layer: int) -> list[set[int]]:
        if layer == self.last:
            return [set()]
        return [{after} | rest for after in self.readers[layer] for rest in self.all_ways(after)]


def partitions(items: list[list[int]]) -> Iterator[list[list[list[int]]]]:
    if not items:
        yield []
        return
    for groups in partitions(items[1:]):
        for place in range(len(groups)):
            yield [*groups[:place], [items[0], *groups[place]], *groups[place + 1 :]]
        yield [[items[0]], *groups]
