"""Which tensors are away: greedy by what relief costs, pruned, then exchanged where that is cheaper.

1. While more than the limit is held: of what is cheapest per byte there, the first that brings the excess down with
   all that it entails, as what a chain needs has to be there earlier.
2. Another start is all offloaded. Copies back that begin as late as they can need the least room of all methods:
   where that is too much, nothing helps in this order.
3. Take back what is not needed, the dearest first.
4. Again and again: keep some that are away, find others instead with each price a little off, and take that if it
   is cheaper. Which ones and how far off comes from a seeded generator: same step, same choice.
"""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tfwave.offload.choice import Choice, Prices
from tfwave.offload.layout import KEEP, OFFLOAD, RECOMPUTE, Layout, Method

_BUDGET = 3e6
"""All choices measured look at so many places: some tenths of a second.

With 13 times as many no fit of seven models gets 1 % cheaper.
"""
_PATIENCE = 24
"""It ends after so many rounds, for each tensor that is away, without a cheaper choice."""
_MOST_RUINED = 6
_NOISE = (1.5, 5.0)
"""Prices are so many times off at most, in one round or another."""

_Table = npt.NDArray[np.float64]


def greedy_choice(prices: Prices, limit: int) -> Choice | None:
    """The cheapest that is found to keep to the limit; None if not even all offloaded does."""
    layout = prices.layout.condensed()
    if not Choice.all_of(layout, Method.OFFLOAD).fits(limit):
        return None
    found = _Search(layout, prices.of, limit).best()
    return Choice.of(prices.layout, found.methods)


@dataclass
class _Search:
    layout: Layout
    prices: _Table
    limit: int
    spent: float = 0.0
    noise: random.Random = field(default_factory=lambda: random.Random(0))  # noqa: S311

    @cached_property
    def _listed(self) -> list[list[float]]:
        """The prices."""
        return self.prices.tolist()

    @cached_property
    def _cheapest(self) -> list[list[int]]:
        """The methods of each candidate by their prices."""
        return np.argsort(self.prices, axis=1, kind="stable").tolist()

    def best(self) -> Choice:
        """Cases 1 to 4."""
        best = self._pruned(Choice.all_of(self.layout, Method.OFFLOAD))
        greedy = self._covered(Choice.all_of(self.layout, Method.KEEP), self.prices)
        if greedy is not None:
            best = self._cheaper(best, self._pruned(greedy))
        fruitless, patience = 0, _PATIENCE * np.count_nonzero(best.methods)
        while self.spent < _BUDGET and fruitless < patience:
            before, fruitless = self._total(best), fruitless + 1
            covered = self._covered(self._ruined(best), self._noisy())
            if covered is not None:
                best = self._cheaper(best, self._pruned(covered))
            if self._total(best) < before:
                fruitless = 0
        return best

    def _ruined(self, choice: Choice) -> Choice:
        """Some of those that are away are kept."""
        away = np.flatnonzero(choice.methods).tolist()
        for number in self.noise.sample(away, self.noise.randint(1, min(_MOST_RUINED, len(away)))):
            choice = choice.having(number, KEEP)
        return choice

    def _noisy(self) -> _Table:
        most = self.noise.choice(_NOISE)
        chance, least = self.noise.random, 1 / most
        factors = [least + (most - least) * chance() for _ in range(self.prices.size)]
        return self.prices * np.array(factors).reshape(self.prices.shape)

    def _total(self, choice: Choice) -> float:
        return math.fsum(self.prices[np.arange(len(choice.methods)), choice.methods])

    def _cheaper(self, one: Choice, other: Choice) -> Choice:
        return other if self._total(other) <= self._total(one) else one

    def _covered(self, choice: Choice, prices: _Table) -> Choice | None:
        """Case 1; None where no single move helps."""
        while excess := self._excess(choice):
            moved = self._moved(choice, excess, prices)
            if moved is None:
                return None
            choice = moved
        return choice

    def _moved(self, choice: Choice, excess: int, prices: _Table) -> Choice | None:
        """With one more away, the most promising that brings the excess down; None if none does."""
        for number, method in self._promising(choice, prices):
            moved = choice.having(number, method)
            if self._excess(moved) < excess:
                return moved
        return None

    def _promising(self, choice: Choice, prices: _Table) -> Iterator[tuple[int, int]]:
        """What is kept, with each method, by its price per byte that it takes off where too much is held."""
        layout, ways = self.layout, (OFFLOAD, RECOMPUTE)
        over = np.concatenate([[0], np.cumsum(choice.held > self.limit)])
        begin = layout.left + 1
        ratios = np.full((len(layout.candidates), len(ways)), np.inf)
        for column, (method, own) in enumerate(zip(ways, (layout.fetched, layout.wanted), strict=True)):
            back = np.maximum(np.minimum(own, choice.needed), begin)
            relieved = (over[back] - over[begin]) * layout.bytes
            could = (choice.methods == KEEP) & (relieved > 0)
            ratios[could, column] = prices[could, method] / relieved[could]
        ranked = np.argsort(ratios, axis=None, kind="stable")
        for place in ranked[: np.count_nonzero(np.isfinite(ratios))].tolist():
            yield place // len(ways), ways[place % len(ways)]

    def _pruned(self, choice: Choice) -> Choice:
        """Case 3: keep what can be kept, or take the cheaper method."""
        for number in self._dearest(choice):
            own = self._listed[number]
            now = own[int(choice.methods[number])]
            for method in self._cheapest[number]:
                if own[method] >= now:
                    break
                trial = choice.having(number, method)
                if not self._excess(trial):
                    choice = trial
                    break
        return choice

    def _dearest(self, choice: Choice) -> list[int]:
        away = np.flatnonzero(choice.methods).tolist()
        return sorted(away, key=lambda n: (-self._listed[n][int(choice.methods[n])], n))

    def _excess(self, choice: Choice) -> int:
        self.spent += 300 + len(self.layout.kept)
        return choice.excess(self.limit)
