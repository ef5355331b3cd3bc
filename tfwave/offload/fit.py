"""Whether and how a training step fits into a memory: the order, what is away, and what that costs."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

from tfwave.offload.bound import relief_bound
from tfwave.offload.choice import Choice, Prices
from tfwave.offload.dymem import dymem_choice
from tfwave.offload.exact import exact_choice
from tfwave.offload.forecast import Forecast, forecast
from tfwave.offload.greedy import greedy_choice
from tfwave.offload.layout import Layout, Method
from tfwave.offload.orders import tried_orders
from tfwave.offload.step import TrainingStep

LEAD = 3
"""A copy back begins so many ops ahead at least, where the limit allows it."""
EXACT_SECONDS = 15.0
"""The solver takes no longer for each program."""
_EXPOSED = (1.0, 0.1)
"""These shares of the copies count as computing: all, as on cores that they share; or little, as most hide."""


class Policy(StrEnum):
    """Who chooses."""

    GREEDY = "greedy"
    EXACT = "exact"
    """The integer optimum, by SciPy."""
    DYMEM = "dymem"
    """All that can be is offloaded."""


@dataclass(frozen=True)
class Fit:
    """How a step fits.

    Attributes:
        policy: who chose.
        forecast: the choice, and what it does.
        prices: by which it was chosen.
        limit: bytes that it holds at most.
        optimum: no choice in this order costs less by the same prices, as a solver knows; None: none was asked.
    """

    policy: Policy
    forecast: Forecast
    prices: Prices
    limit: int
    optimum: float | None = None

    @cached_property
    def price(self) -> float:
        """So many seconds of copies, as the prices count them, and of repeated ops."""
        return self.prices.total(self.forecast.choice)

    @cached_property
    def bound(self) -> float:
        """No choice in this order costs less by the same prices."""
        return relief_bound(self.prices, self.limit) if self.optimum is None else self.optimum

    @property
    def bound_name(self) -> str:
        """What that bound is called."""
        return "relief at the worst op" if self.optimum is None else "integer optimum"

    @property
    def gap(self) -> float | None:
        """How far the price is above the bound, as a share of it: 0 is proven optimal; None without a bound."""
        return max(0.0, self.price / self.bound - 1) if self.bound > 0 else (None if self.price else 0.0)

    @property
    def cost(self) -> tuple[float, float]:
        """What is compared: extra seconds, and the price."""
        return self.forecast.extra_seconds, self.price

    @property
    def layout(self) -> Layout:
        """The step in its order."""
        return self.forecast.choice.layout

    @property
    def seconds(self) -> float:
        """Of a step."""
        return self.layout.step.seconds + self.forecast.extra_seconds


class Fits:
    """The fits of a step, which is laid out once in each of two orders: as it was traced, and the lean one."""

    def __init__(self, step: TrainingStep) -> None:
        """Nothing is laid out before it is asked for."""
        self._step = step

    def within(self, limit: int, policy: Policy = Policy.GREEDY) -> Fit | None:
        """The fit that takes the least time by the forecast, of equals the cheaper; None if the policy finds none.

        Greedy and exact try both orders, and with each two views of what copies cost. Exact takes greedy's choice
        where the solver finds none cheaper in time.

        Raises:
            EnvironmentUnsupported: the policy is exact, and SciPy is not installed.
        """
        if policy is Policy.DYMEM:
            choice = dymem_choice(self._step)
            if not choice.fits(limit):
                return None
            return Fit(policy, forecast(choice, limit), Prices(choice.layout), limit)
        found: Fit | None = None
        for fit in self._tried(limit, policy):
            if not fit.price:
                return fit
            if found is None or fit.cost < found.cost:
                found = fit
        return found

    @property
    def least_limit(self) -> int:
        """Bytes: the least limit that any of the orders can be made to keep to, at whatever cost."""
        return min(_all_away(layout).peak for layout in self._late)

    def away(self) -> Iterator[Fit]:
        """With all offloaded and fetched at the last moment, one op after the other: none holds less."""
        for layout in self._late:
            choice = _all_away(layout)
            alone = forecast(choice, choice.peak, 0)
            yield Fit(Policy.GREEDY, alone, Prices(layout), choice.peak)

    def layouts(self, limit: int) -> Iterator[Layout]:
        """In each order; copies back begin ahead of what wants them, where the limit allows it."""
        for ahead, late in zip(self._ahead, self._late, strict=True):
            yield ahead if _all_away(ahead).fits(limit) else late

    @cached_property
    def _orders(self) -> tuple[tuple[int, ...], ...]:
        return tried_orders(self._step)

    @cached_property
    def _ahead(self) -> tuple[Layout, ...]:
        return tuple(Layout.of(self._step, order, LEAD) for order in self._orders)

    @cached_property
    def _late(self) -> tuple[Layout, ...]:
        return tuple(Layout.of(self._step, order, 0) for order in self._orders)

    def _tried(self, limit: int, policy: Policy) -> Iterator[Fit]:
        for layout in self.layouts(limit):
            told: Forecast | None = None
            for exposed in _EXPOSED:
                prices = Prices(layout, exposed)
                choice, optimum = greedy_choice(prices, limit), None
                if policy is Policy.EXACT:
                    found = exact_choice(prices, limit, EXACT_SECONDS)
                    known = [each for each in (found.choice, choice) if each is not None]
                    choice, optimum = min(known, key=prices.total, default=None), found.bound
                if choice is not None:
                    told = told if told and told.choice.is_same(choice) else forecast(choice, limit)
                    yield Fit(policy, told, prices, limit, optimum)


def side_by_side(fit: Fit, most_beside: int) -> Fit:
    """The same where an op runs beside so many at most of those that come before it, and no more is held."""
    return replace(fit, forecast=forecast(fit.forecast.choice, fit.forecast.peak, most_beside))


def _all_away(layout: Layout) -> Choice:
    return Choice.all_of(layout, Method.OFFLOAD)
