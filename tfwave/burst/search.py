"""The fastest plan of which each layer keeps to a limit: a shortest path over (layer, number of devices).

DeepPool section 4 with its errata mended: the limit lies on the edge (count before, count here), as what a
layer costs depends on both; a block of branches is an edge, too, and its branches share the devices that there are,
as do those into which one of them parts again.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from tfwave.burst.branches import Fork, branches_of, fork_at
from tfwave.burst.costs import LayerCosts
from tfwave.burst.packing import MOST_BRANCHES, packings
from tfwave.errors import PlanError

_ROUNDING = 1 + 1e-9


@dataclass(frozen=True)
class Choice:
    """What was found: of each layer the number of its first device and how many it has, and seconds of a step."""

    first: tuple[int, ...]
    count: tuple[int, ...]
    seconds: float


def fastest(costs: LayerCosts, limit: float) -> Choice:
    """The fastest plan; each layer, with what its edge moves, takes at most `limit` x its device-seconds alone.

    Raises:
        PlanError: the limit is below 1, or a block has too many branches, or some that cross; names it.
    """
    if not limit >= 1:
        raise PlanError(f"a limit of {limit:g} x cannot be kept: a layer on one device is at 1 x")
    search = _Search(costs, limit)
    top = len(costs.counts) - 1
    last = len(costs.names) - 1
    start = np.where(search.keeps_alone, costs.own[0], np.inf)
    path = _Path(0, start[None, None, :])
    search.follow(path, last, (top,))
    ends = path.reached[-1][0, 0]
    end = int(ends.argmin())
    places: dict[int, tuple[int, int]] = {last: (0, end)}
    path.trace(0, 0, end, 0, places)
    return Choice(
        tuple(places[layer][0] for layer in range(last + 1)),
        tuple(costs.counts[places[layer][1]] for layer in range(last + 1)),
        float(ends[end]),
    )


class _Step(Protocol):
    """From one layer to a later one: `seconds` is [width, K before, K here], widths may be one for all."""

    seconds: np.ndarray

    def trace(
        self, width: int, before: int, here: int, base: int, places: dict[int, tuple[int, int]]
    ) -> None:
        """Note the first device, and which count, of each layer strictly between the two."""
        ...


@dataclass
class _Edge:
    """One layer reads another: nothing lies between."""

    seconds: np.ndarray

    def trace(
        self, width: int, before: int, here: int, base: int, places: dict[int, tuple[int, int]]
    ) -> None:
        """There is nothing to note."""


@dataclass
class _Path:
    """Steps one after the other; `reached` is what has passed when each layer on the way has run."""

    start: int
    first: np.ndarray
    steps: list[_Step] = field(default_factory=list[_Step])
    layers: list[int] = field(default_factory=list[int])
    reached: list[np.ndarray] = field(default_factory=list[np.ndarray])

    def __post_init__(self) -> None:
        """The layer that it starts at has run."""
        self.layers.append(self.start)
        self.reached.append(self.first)

    def append(self, step: _Step, layer: int) -> None:
        """Go on to a layer."""
        here = (self.reached[-1][:, :, :, None] + step.seconds[:, None, :, :]).min(2)
        self.steps.append(step)
        self.layers.append(layer)
        self.reached.append(here)

    def trace(
        self, width: int, before: int, here: int, base: int, places: dict[int, tuple[int, int]]
    ) -> None:
        """Note all layers but the last; whoever asks a branch notes the one that it starts at, too, after it."""
        for number in range(len(self.steps) - 1, -1, -1):
            step, reached = self.steps[number], self.reached[number]
            ways = _of(reached, width)[before] + _of(step.seconds, width)[:, here]
            middle = int(ways.argmin())
            step.trace(width, middle, here, base, places)
            places[self.layers[number]] = (base, middle)
            here = middle


@dataclass
class _Block:
    """Branches, near and far, from a layer to where they meet, and a direct edge; each width is packed anew."""

    search: "_Search"
    branches: Sequence[tuple[_Path, _Path]]
    direct: np.ndarray
    widths: tuple[int, ...]

    def __post_init__(self) -> None:
        """The least time, by width."""
        self.seconds = np.stack([self._ways(width).min(0) for width in self.widths])

    def trace(
        self, width: int, before: int, here: int, base: int, places: dict[int, tuple[int, int]]
    ) -> None:
        """Note the layers of each branch, group by group."""
        cap = self.widths[width]
        way = int(self._ways(cap)[:, before, here].argmin())
        masks, widths, near = self._packings(cap)
        order = sorted(range(len(masks[way])), key=lambda group: group != near[way])
        for group in order:
            mask, wide = int(masks[way][group]), int(widths[way][group])
            for bit, paths in enumerate(self.branches):
                if mask >> bit & 1:
                    paths[int(group != near[way])].trace(wide, before, here, base, places)
            base += self.search.costs.counts[wide] if mask else 0

    @functools.cached_property
    def _sums(self) -> np.ndarray:
        """Of each set of branches, run one after the other: [set, near or far, width, K before, K here]."""
        times = np.stack([[path.reached[-1] for path in branch] for branch in self.branches])
        sums = np.zeros((1 << len(times), *times.shape[1:]))
        for bit, branch in enumerate(times):
            sums[1 << bit : 2 << bit] = sums[: 1 << bit] + branch
        return sums

    def _packings(self, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        counts = self.search.costs.counts
        return packings(len(self.branches), counts, counts[width])

    def _ways(self, width: int) -> np.ndarray:
        """Seconds of each packing into so many devices: [way, K before, K here]."""
        masks, widths, near = self._packings(width)
        far = np.ones_like(masks)
        far[np.arange(len(near)), near] = 0
        return np.maximum(self._sums[masks, far, widths].max(1), self.direct)


class _Search:
    """What one search has to do with its costs and its limit."""

    def __init__(self, costs: LayerCosts, limit: float) -> None:
        self.costs = costs
        counts = np.array(costs.counts)
        allowed = np.full(len(costs.names), np.inf) if limit == np.inf else limit * _ROUNDING * costs.alone
        self.keeps_alone = costs.own[0] * counts <= allowed[0]
        here = np.array([edge[1] for edge in costs.edges], dtype=int)
        self._moves: list[np.ndarray] = []
        for moves in (costs.near, costs.far):
            device_seconds = (moves + costs.own[here][:, None, :]) * counts
            self._moves.append(np.where(device_seconds <= allowed[here][:, None, None], moves, np.inf))
        self._number = {edge: number for number, edge in enumerate(costs.edges)}
        self._all = tuple(range(len(counts)))
        beyond = np.arange(len(counts))[None, :] > np.arange(len(counts))[:, None]
        self._beyond = np.where(beyond, np.inf, 0.0)[:, None, :]  # [width, 1, K here]

    def follow(self, path: _Path, end: int, widths: tuple[int, ...]) -> None:
        """Extend a path to a layer, that layer's own time included."""
        while path.layers[-1] != end:
            self.advance(path, fork_at(self.costs, path.layers[-1]), 0, widths)

    def advance(self, path: _Path, fork: Fork, enter: int, widths: tuple[int, ...]) -> None:
        """Extend a path from its last layer to where ways from that meet."""
        step = self.step(fork, enter, 0, widths)
        step.seconds = step.seconds + self.costs.own[fork.join] + self._beyond[list(widths)]
        path.append(step, fork.join)

    def step(self, fork: Fork, enter: int, leave: int, widths: tuple[int, ...]) -> _Step:
        """From a layer to where ways meet, without that one's own time; the first and last edges may be far."""
        if fork.is_edge:
            return _Edge(self.moves(fork.layer, fork.join, enter or leave)[None])
        goes_straight = fork.join in fork.firsts
        direct = self.moves(fork.layer, fork.join, enter or leave) if goes_straight else np.zeros(1)
        branches = [
            (self.branch(each, fork.join, enter, leave), self.branch(each, fork.join, 1, 1))
            for each in branches_of(self.costs, fork)
        ]
        if len(branches) > MOST_BRANCHES:
            raise PlanError(
                f"{len(branches)} branches leave '{self.costs.names[fork.layer]}', and the search takes at most "
                f"{MOST_BRANCHES}: make one layer of some of them"
            )
        return _Block(self, branches, direct, widths)

    def branch(self, fork: Fork, join: int, enter: int, leave: int) -> _Path:
        """From a layer over where a branch's own ways meet to the join, for each width of the branch."""
        path = _Path(fork.layer, self._nothing)
        self.advance(path, fork, enter, self._all)
        while self.costs.joins[path.layers[-1]] != join:
            self.advance(path, fork_at(self.costs, path.layers[-1]), 0, self._all)
        path.append(self.step(fork_at(self.costs, path.layers[-1]), 0, leave, self._all), join)
        return path

    def moves(self, before: int, here: int, far: int) -> np.ndarray:
        """Of an edge, [K before, K here]: infinite where the layer here would pass the limit."""
        return self._moves[far][self._number[before, here]]

    @functools.cached_property
    def _nothing(self) -> np.ndarray:
        """No time has passed, and the count is what it is: [1, K, K]."""
        return np.where(np.eye(len(self._all)) > 0, 0.0, np.inf)[None]


def _of(seconds: np.ndarray, width: int) -> np.ndarray:
    """The matrix of a width, where there is more than one."""
    return seconds[width if len(seconds) > 1 else 0]
