"""What to expect of each way to reduce, before the run, from measured step times."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from statistics import fmean, median

from tfwave.cost.analytic import LinkModel
from tfwave.stragglers.groups import Groups, groupings, members
from tfwave.stragglers.meetings import meet
from tfwave.stragglers.simulate import Reduce, Ring, Rule
from tfwave.stragglers.times import Times, draws, measured_of, those_of

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
        name: "barrier", "all", "probes N" or "N groups".
        workers: How many there are.
        wait_seconds: The median time from when a reduce is asked for until it goes.
        joined: The mean share of the workers that give something to a reduce; of a group's, where there are some.
        gradients_per_second: Of all workers together.
        groups: The measured workers of each group, where there are some; else none.
        apart_seconds: The mean time from one meeting of a group with the parameter server to its next: so old
            are the other groups' sums. None: there are no groups, or none met twice.
    """

    name: str
    workers: int
    wait_seconds: float
    joined: float
    gradients_per_second: float
    groups: Groups = ()
    apart_seconds: float | None = None


@dataclass(frozen=True)
class Verdict:
    """Which way makes the most gradients per second, or the simplest of those that make as many.

    Attributes:
        workers: How many there are.
        best: Its name, as in `Forecast`; one without groups.
        gain: Its gradients per second over those of the barrier.
        pays: Whether the gain is worth the older gradients.
        groups_gain: The gradients per second of the groups over those of `best`; 0 where there are no groups.
        groups_pay: Whether that is worth their older weights, a server and its traffic.
    """

    workers: int
    best: str
    gain: float
    pays: bool
    groups_gain: float = 0.0
    groups_pay: bool = False


def ring_seconds(workers: int, gradients: float, link: LinkModel) -> float:
    """Seconds of a ring's reduce: each of n workers passes an n-th of the gradients' bytes 2 (n - 1) times."""
    turns = 2 * (workers - 1)
    return turns * (gradients / workers / link.bytes_per_second + link.latency_seconds)


def exchange_seconds(gradients: float, link: LinkModel) -> float:
    """Seconds of a group's meeting with the parameter server: the gradients' bytes there, and as many back."""
    return 2 * (gradients / link.bytes_per_second + link.latency_seconds)


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
    times: Times,
    workers: int,
    probes: Sequence[int],
    reduce_seconds: Callable[[int], float],
    exchange_seconds: float = 0.0,
) -> list[Forecast]:
    """Barrier, all with steps under way during a reduce, the numbers of probes there are workers for, and groups.

    Barrier: each waits for the reduce, as under a stock strategy. Groups have a ring each, by which they make
    partial reduces, and meet at a parameter server for which nobody waits (sec. 5.2, `meetings.meet`): all groups'
    gradients add up. Of the groupings that come into question it is the one with the most gradients per second, or
    the fewest groups that make as many. There are none where all workers have the same mean step time.

    Args:
        times: The measured steps.
        workers: How many to simulate; if there are fewer than were measured, the first of these.
        probes: Numbers of probed workers.
        reduce_seconds: How long a reduce among so many workers takes.
        exchange_seconds: How long the parameter server needs for one group.

    Returns:
        A forecast for each. The same input, the same forecast.
    """
    times = those_of(times, workers)
    terms = choose_terms(times)
    rules = {"barrier": Rule(None, 0), "all": Rule(None, terms.ahead)}
    rules |= {f"probes {q}": Rule(q, terms.ahead, terms.grace) for q in probes if q <= workers}
    until = STEPS * (fmean(map(fmean, times.values())) + reduce_seconds(workers))
    found = list[Forecast]()
    for name, rule in rules.items():
        ring = _ring(times, range(workers), rule, reduce_seconds)
        while ring.is_under_way(until):
            ring.reduce()
        found.append(_figures(name, workers, [ring]))
    grouped = [
        _of_groups(times, groups, workers, reduce_seconds, exchange_seconds, until)
        for groups in groupings(times)
    ]
    return [*found, _best(grouped)] if grouped else found


def judge(found: Sequence[Forecast]) -> Verdict:
    """What to expect, of the forecasts for one number of workers; the barrier's is the first."""
    barrier, *others = found
    best = _best([each for each in others if not each.groups])
    gain = best.gradients_per_second / barrier.gradients_per_second
    groups = max((each.gradients_per_second for each in others if each.groups), default=0.0)
    of_groups = groups / best.gradients_per_second
    return Verdict(barrier.workers, best.name, gain, gain > LITTLE, of_groups, of_groups > LITTLE)


def _best(found: Sequence[Forecast]) -> Forecast:
    most = max(each.gradients_per_second for each in found)
    return next(each for each in found if each.gradients_per_second >= ALIKE * most)


def _of_groups(  # noqa: PLR0913, PLR0917
    times: Times,
    groups: Groups,
    workers: int,
    reduce_seconds: Callable[[int], float],
    exchange_seconds: float,
    until: float,
) -> Forecast:
    who = members(groups, times, workers)
    ahead = choose_terms(times).ahead
    rings = [_ring(times, each, _of_group(times, each, ahead), reduce_seconds) for each in who]
    meetings = meet(rings, exchange_seconds=exchange_seconds, until=until)
    apart = [(each[-1].ended - each[0].ended) / (len(each) - 1) for each in meetings if len(each) > 1]
    flat = _figures(f"{len(groups)} groups", workers, rings)
    return replace(flat, groups=groups, apart_seconds=max(apart, default=None))


def _of_group(times: Times, group: Sequence[int], ahead: int) -> Rule:
    """As if there were only this group, but that all groups run ahead as far as those of one ring would."""
    grace = choose_terms({str(i): measured_of(times, i) for i in group}).grace
    return Rule(min(2, len(group)), ahead, grace)


def _ring(times: Times, who: Sequence[int], rule: Rule, reduce_seconds: Callable[[int], float]) -> Ring:
    drawn = [draws(times, i, seed=0) for i in who]
    return Ring(rule, drawn, _probed(len(who), rule.probes or 0), reduce_seconds(len(who)))


def _probed(workers: int, probes: int) -> Iterator[Sequence[int]]:
    chance = random.Random(0)  # noqa: S311
    while True:
        yield chance.sample(range(workers), probes)


def _figures(name: str, workers: int, rings: Sequence[Ring]) -> Forecast:
    reduces = list(chain.from_iterable(ring.done for ring in rings))
    return Forecast(
        name,
        workers,
        median(each.go - each.begin for each in reduces),
        fmean(sum(n > 0 for n in each.gave) / len(each.gave) for each in reduces),
        sum(_rate(ring.done) for ring in rings),
    )


def _rate(reduces: Sequence[Reduce]) -> float:
    return sum(sum(each.gave) for each in reduces) / reduces[-1].end
