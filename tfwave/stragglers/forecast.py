"""What to expect of each way to reduce, before the run, from measured step times."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean, median

from tfwave.stragglers.simulate import Reduce, Rule, simulate
from tfwave.stragglers.times import Times, draws

STEPS = 100
"""Mean step times that each simulation lasts."""

PATIENCE = 0.1
"""The share of a median step for which a reduce waits at most for those who have nothing: a choice of tfwave's."""

AHEAD = 4
"""The gradients that a worker may hold where there are stragglers: a bound on staleness, as in sec. 5.1."""


@dataclass(frozen=True)
class Terms:
    """How partial reduces are made.

    Attributes:
        grace: Seconds, as in `Rule`.
        ahead: As in `Rule`.
        stragglers: Whether some measured step was longer than another by more than the grace.
    """

    grace: float
    ahead: int
    stragglers: bool


@dataclass(frozen=True)
class Forecast:
    """What is expected of one way to reduce.

    Attributes:
        name: "barrier", "all" or "probes N".
        workers: How many there are.
        wait_seconds: The median time from when a reduce is asked for until it goes.
        joined: The mean share of the workers that give something to a reduce.
        gradients_per_second: Of all workers together.
    """

    name: str
    workers: int
    wait_seconds: float
    joined: float
    gradients_per_second: float


def choose_terms(times: Times) -> Terms:
    """A grace and a bound by which nothing is split where there are no stragglers.

    There are none if all measured steps lie within the grace of each other. Then nobody runs ahead, all begin a
    step together, and the grace lasts until the last has ended it: each reduce has all gradients.
    """
    every = list(chain.from_iterable(times.values()))
    spread, patience = max(every) - min(every), PATIENCE * median(every)
    stragglers = spread > patience
    return Terms(patience, AHEAD if stragglers else 1, stragglers)


def forecast(times: Times, workers: int, probes: Sequence[int], reduce_seconds: float) -> list[Forecast]:
    """Barrier, all with steps under way during a reduce, and the numbers of probes that there are workers for.

    Barrier: each waits for the reduce, as under a stock strategy. The same input, the same forecast.
    """
    terms = choose_terms(times)
    rules = {"barrier": Rule(None, 0), "all": Rule(None, terms.ahead)}
    rules |= {f"probes {q}": Rule(q, terms.ahead, terms.grace) for q in probes if q <= workers}
    until = STEPS * (fmean(map(fmean, times.values())) + reduce_seconds)
    return [
        _figures(
            name,
            simulate(
                rule,
                draws(times, workers, seed=0),
                _probed(workers, rule.probes or 0),
                reduce_seconds=reduce_seconds,
                until=until,
            ),
            reduce_seconds,
        )
        for name, rule in rules.items()
    ]


def _probed(workers: int, probes: int) -> Iterator[Sequence[int]]:
    chance = random.Random(0)  # noqa: S311
    while True:
        yield chance.sample(range(workers), probes)


def _figures(name: str, reduces: Sequence[Reduce], reduce_seconds: float) -> Forecast:
    workers = len(reduces[0].gave)
    return Forecast(
        name,
        workers,
        median(each.go - each.begin for each in reduces),
        fmean(sum(n > 0 for n in each.gave) / workers for each in reduces),
        sum(sum(each.gave) for each in reduces) / (reduces[-1].go + reduce_seconds),
    )
