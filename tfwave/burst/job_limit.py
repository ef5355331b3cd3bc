"""The fastest plan of a chain whose layers keep to a limit together: a shortest path with a budget.

A price of device-seconds gives a first plan and a bound that no plan is under (Lagrange); then all ways are
followed that the bound does not rule out, which gives the optimum, unless they are too many.
"""

from dataclasses import dataclass

import numpy as np

from tfwave.burst.costs import LayerCosts
from tfwave.burst.search import Choice
from tfwave.errors import PlanError

MOST_WAYS = 20_000
"""Ways that are followed at once; with more, the first plan stands."""

_HALVINGS = 60
_ROUNDING = 1e-9


def fastest_together(costs: LayerCosts, limit: float) -> tuple[Choice, float]:
    """The fastest plan whose device-seconds are at most `limit` x those on one device, and a bound in seconds.

    Where the bound is the plan's own time, the plan is optimal.

    Raises:
        PlanError: the limit is below 1 or infinite, or the model is no chain.
    """
    if not 1 <= limit < float("inf"):
        raise PlanError(f"a limit of {limit:g} x is none to keep: all layers on one device are at 1 x")
    if not costs.is_chain:
        branching = next(costs.names[i] for i, after in enumerate(costs.readers) if len(after) > 1)
        raise PlanError(
            f"a limit of the whole job is for chains, and '{branching}' has several readers: give a limit "
            "of each layer"
        )
    chain = _Chain.of(costs, limit * float(costs.alone.sum()) * (1 + _ROUNDING))
    price, counts = chain.priced()
    bound = chain.least(price)
    found = chain.seconds_of(counts)
    if found > bound * (1 + _ROUNDING):
        exact = chain.exact(price, found)
        if exact is not None:
            counts = exact
            bound = found = chain.seconds_of(counts)
    return Choice((0,) * len(counts), tuple(costs.counts[k] for k in counts), found), min(bound, found)


@dataclass(frozen=True)
class _Chain:
    """Seconds and device-seconds of each layer, [layer, K before, K here]; of the first any K before is alike."""

    seconds: np.ndarray
    work: np.ndarray
    budget: float

    @classmethod
    def of(cls, costs: LayerCosts, budget: float) -> "_Chain":
        near = np.zeros((len(costs.names), len(costs.counts), len(costs.counts)))
        for (_, here), moves in zip(costs.edges, costs.near, strict=True):
            near[here] = moves
        seconds = near + costs.own[:, None, :]
        return cls(seconds, seconds * np.array(costs.counts), budget)

    def seconds_of(self, counts: tuple[int, ...]) -> float:
        return _sum_along(self.seconds, counts)

    def to_go(self, price: float) -> list[np.ndarray]:
        """The least seconds + price x device-seconds from behind each layer to the end, by its count."""
        ahead = [np.zeros(self.seconds.shape[2])]
        for layer in range(len(self.seconds) - 1, 0, -1):
            edge = self.seconds[layer] + price * self.work[layer]
            ahead.append((edge + ahead[-1]).min(1))
        return ahead[::-1]

    def best(self, price: float) -> tuple[int, ...]:
        """The plan that takes the least seconds + price x device-seconds."""
        ahead = self.to_go(price)
        counts: list[int] = []
        for layer, rest in enumerate(ahead):
            edge = self.seconds[layer] + price * self.work[layer] + rest
            counts.append(int(edge[counts[-1] if counts else 0].argmin()))
        return tuple(counts)

    def least(self, price: float) -> float:
        """No plan within the budget takes fewer seconds than this, at any price."""
        plan = self.best(price)
        return self.seconds_of(plan) + price * (_sum_along(self.work, plan) - self.budget)

    def priced(self) -> tuple[float, tuple[int, ...]]:
        """The least price at which the plan is within the budget, and that plan."""
        if _sum_along(self.work, plan := self.best(0.0)) <= self.budget:
            return 0.0, plan
        low, high = 0.0, 1.0
        while _sum_along(self.work, self.best(high)) > self.budget:
            low, high = high, high * 2
            if high > 1 / _ROUNDING**2:
                return high, (0,) * len(self.seconds)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            within = _sum_along(self.work, self.best(middle)) <= self.budget
            low, high = (low, middle) if within else (middle, high)
        return high, self.best(high)

    def exact(self, price: float, known: float) -> tuple[int, ...] | None:
        """The optimum, of which `known` seconds are reached by some plan; None: too many ways to look at."""
        ahead, work_ahead = self.to_go(price), self._work_to_go()
        ways = _Ways(np.zeros(1), np.zeros(1), np.zeros(1, int), np.zeros(1, int))
        layers: list[_Ways] = []
        for layer, rest in enumerate(ahead):
            ways = ways.to(self.seconds[layer], self.work[layer])
            within = ways.work + work_ahead[layer][ways.count] <= self.budget
            least = ways.seconds + price * ways.work + rest[ways.count] - price * self.budget
            ways = ways.only(within & (least <= known * (1 + _ROUNDING))).undominated()
            if len(ways.seconds) > MOST_WAYS:
                return None
            layers.append(ways)
        return _followed_back(layers, int(ways.seconds.argmin()))

    def _work_to_go(self) -> list[np.ndarray]:
        ahead = [np.zeros(self.work.shape[2])]
        for layer in range(len(self.work) - 1, 0, -1):
            ahead.append((self.work[layer] + ahead[-1]).min(1))
        return ahead[::-1]


@dataclass(frozen=True)
class _Ways:
    """Ways to have run a layer: seconds, device-seconds, the layer's count, and which way each extends."""

    seconds: np.ndarray
    work: np.ndarray
    count: np.ndarray
    before: np.ndarray

    def to(self, seconds: np.ndarray, work: np.ndarray) -> "_Ways":
        """Each of them, on to the next layer with each count."""
        many, kinds = len(self.seconds), int(seconds.shape[1])
        return _Ways(
            (self.seconds[:, None] + seconds[self.count]).ravel(),
            (self.work[:, None] + work[self.count]).ravel(),
            np.tile(np.arange(kinds), many),
            np.repeat(np.arange(many), kinds),
        )

    def only(self, these: np.ndarray) -> "_Ways":
        return _Ways(self.seconds[these], self.work[these], self.count[these], self.before[these])

    def undominated(self) -> "_Ways":
        """Without those that another of the same count beats in both."""
        order = np.lexsort((self.work, self.seconds, self.count))
        sorted_ = self.only(order)
        keep = np.ones(len(order), bool)
        for count in np.unique(sorted_.count):
            these = np.flatnonzero(sorted_.count == count)
            least = np.minimum.accumulate(sorted_.work[these])
            keep[these[1:]] = sorted_.work[these[1:]] < least[:-1]
        return sorted_.only(keep)


def _sum_along(table: np.ndarray, counts: tuple[int, ...]) -> float:
    return float(sum(table[layer, counts[max(layer - 1, 0)], k] for layer, k in enumerate(counts)))


def _followed_back(layers: list[_Ways], way: int) -> tuple[int, ...]:
    counts: list[int] = []
    for ways in reversed(layers):
        counts.append(int(ways.count[way]))
        way = int(ways.before[way])
    return tuple(reversed(counts))
