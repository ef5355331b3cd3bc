"""What to expect of each way to reduce, before the run, from measured step times."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from statistics import fmean, median

from tfwave.cost.analytic import LinkModel
from tfwave.stragglers.simulate import Reduce, Rule, simulate
from tfwave.stragglers.times import Times, draws, measured_of

STEPS = 100
"""Mean step times that each simulation lasts."""

PATIENCE = 0.1
"""The share of a median step for which a reduce waits at most for those who have nothing: a choice of tfwave's."""

AHEAD = 4
"""The gradients that a worker may hold where there are stragglers: a bound on staleness, as in sec. 5.1."""


LITTLE = 1.05
"""A gain in gradients per second up to this is none, as their effect on the loss is less: a choice of tfwave's."""

ALIKE = 0.99
"""The share of the most gradients per second from which a simpler way is as good: what simulations scatter by."""


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
        name: "barrier", "all", "probes N" or "2 groups".
        workers: How many there are.
        wait_seconds: The median time from when a reduce is asked for until it goes.
        joined: The mean share of the workers that give something to a reduce; of a group's, where there are two.
        gradients_per_second: Of all workers together.
    """

    name: str
    workers: int
    wait_seconds: float
    joined: float
    gradients_per_second: float


@dataclass(frozen=True)
class Verdict:
    """Which way makes the most gradients per second, or the simplest of those that make as many.

    Attributes:
        workers: How many there are.
        best: Its name, as in `Forecast`.
        gain: Its gradients per second over those of the barrier.
        pays: Whether the gain is worth the older gradients.
    """

    workers: int
    best: str
    gain: float
    pays: bool


def ring_seconds(workers: int, gradients: float, link: LinkModel) -> float:
    """Seconds of a ring's reduce: each of n workers passes an n-th of the gradients' bytes 2 (n - 1) times."""
    turns = 2 * (workers - 1)
    return turns * (gradients / workers / link.bytes_per_second + link.latency_seconds)


def choose_terms(times: Times) -> Terms:
    """A grace and a bound by which nothing is split where there are no stragglers.

    There are none if all measured steps lie within the grace of each other. Then nobody runs ahead, all begin a
    step together, and the grace lasts until the last has ended it: each reduce has all gradients.
    """
    every = list(chain.from_iterable(times.values()))
    spread, patience = max(every) - min(every), PATIENCE * median(every)
    stragglers = spread > patience
    return Terms(patience, AHEAD if stragglers else 1, stragglers)


def forecast(
    times: Times, workers: int, probes: Sequence[int], reduce_seconds: Callable[[int], float]
) -> list[Forecast]:
    """Barrier, all with steps under way during a reduce, the numbers of probes there are workers for, two groups.

    Barrier: each waits for the reduce, as under a stock strategy. Two groups are the slower and the faster workers,
    parted where their mean step times lie furthest apart; each has a ring of its own, by which it makes partial
    reduces, and they meet at a parameter server for which nobody waits (sec. 5.2): both groups' gradients add up.
    There are none where all workers were measured alike.

    Args:
        times: The measured steps.
        workers: How many to simulate.
        probes: Numbers of probed workers.
        reduce_seconds: How long a reduce among so many workers takes.

    Returns:
        A forecast for each. The same input, the same forecast.
    """
    terms = choose_terms(times)
    rules = {"barrier": Rule(None, 0), "all": Rule(None, terms.ahead)}
    rules |= {f"probes {q}": Rule(q, terms.ahead, terms.grace) for q in probes if q <= workers}
    until = STEPS * (fmean(map(fmean, times.values())) + reduce_seconds(workers))
    every = range(workers)
    found = [
        _figures(name, workers, [_run(times, every, rule, reduce_seconds(workers), until)])
        for name, rule in rules.items()
    ]
    groups = _groups(times, workers)
    if groups:
        ran = [_run(times, each, _of_group(times, each), reduce_seconds(len(each)), until) for each in groups]
        found.append(_figures("2 groups", workers, ran))
    return found


def judge(found: Sequence[Forecast]) -> Verdict:
    """What to expect, of the forecasts for one number of workers; the barrier's is the first."""
    barrier, *others = found
    most = max(each.gradients_per_second for each in others)
    best = next(each for each in others if each.gradients_per_second >= ALIKE * most)
    gain = best.gradients_per_second / barrier.gradients_per_second
    return Verdict(barrier.workers, best.name, gain, gain > LITTLE)


def _groups(times: Times, workers: int) -> list[list[int]]:
    means = [fmean(measured_of(times, i)) for i in range(workers)]
    in_order = sorted(range(workers), key=lambda i: means[i])
    gaps = [means[slow] - means[fast] for fast, slow in pairwise(in_order)]
    if not any(gaps):
        return []
    cut = gaps.index(max(gaps)) + 1
    return [sorted(in_order[:cut]), sorted(in_order[cut:])]


def _of_group(times: Times, group: Sequence[int]) -> Rule:
    terms = choose_terms({str(i): measured_of(times, i) for i in group})
    return Rule(min(2, len(group)), terms.ahead, terms.grace)


def _run(times: Times, who: Sequence[int], rule: Rule, reduce_seconds: float, until: float) -> list[Reduce]:
    drawn = [draws(times, i, seed=0) for i in who]
    probed = _probed(len(who), rule.probes or 0)
    return simulate(rule, drawn, probed, reduce_seconds=reduce_seconds, until=until)


def _probed(workers: int, probes: int) -> Iterator[Sequence[int]]:
    chance = random.Random(0)  # noqa: S311
    while True:
        yield chance.sample(range(workers), probes)


def _figures(name: str, workers: int, rings: Sequence[Sequence[Reduce]]) -> Forecast:
    reduces = list(chain.from_iterable(rings))
    return Forecast(
        name,
        workers,
        median(each.go - each.begin for each in reduces),
        fmean(sum(n > 0 for n in each.gave) / len(each.gave) for each in reduces),
        sum(_rate(ring) for ring in rings),
    )


def _rate(reduces: Sequence[Reduce]) -> float:
    return sum(sum(each.gave) for each in reduces) / reduces[-1].end
