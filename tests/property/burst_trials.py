"""Random models, planned and held against all the plans that there are: one trial is one model and one limit.

The tests make some of each family, `tools/bench/bursts/burst_planner.py` a thousand.
"""

import itertools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tests.property.burst_oracle import EDGES_OF_BLOCKS, Oracle, chain, random_costs
from tfwave.burst.costs import LayerCosts
from tfwave.burst.job_limit import fastest_together
from tfwave.burst.search import Choice, fastest
from tfwave.burst.section import work_of

LIMITS = (1.0, 1.5, 2.5, 5.0, math.inf)
POWERS = (1, 2, 4)
LONGEST_CHAIN = 5
MOST_DEVICES = 12
EXACTLY = 1e-9
"""The planner and the search through all add the same times in another order."""
_ROUNDING = 1 + 1e-6


@dataclass(frozen=True)
class Tried:
    """What came of one.

    Attributes:
        planned: seconds of a step, as the planner says.
        is_as_said: these are the plan's own seconds.
        best: the least seconds of all plans within the limit.
        bound: what the planner says that no plan is under.
        keeps_limit: no layer, with what an edge moves to it, or not the job, passes it.
        keeps_limit_summed: likewise with all that moves to a layer, where branches meet.
        keeps_capacity: no layer has a device that there is not, and layers that wait for what they read, and for
            nothing else, are done in these seconds.
    """

    planned: float
    is_as_said: bool
    best: float
    bound: float
    keeps_limit: bool
    keeps_limit_summed: bool
    keeps_capacity: bool

    @property
    def is_optimal(self) -> bool:
        """No plan is faster, and none was made up."""
        return all(math.isclose(found, self.best, rel_tol=EXACTLY) for found in (self.planned, self.bound))

    @property
    def is_right(self) -> bool:
        """All of it."""
        return self.is_optimal and self.is_as_said and self.keeps_limit and self.keeps_capacity


def any_counts(rng: random.Random) -> tuple[int, ...]:
    """One device, and two other numbers of them."""
    return (1, *sorted(rng.sample(range(2, MOST_DEVICES + 1), 2)))


def of_layers(rng: random.Random, edges: tuple[tuple[int, int], ...], counts: tuple[int, ...]) -> Tried:
    """A limit for each layer."""
    costs, limit = random_costs(rng, edges, counts), rng.choice(LIMITS)
    found, oracle = fastest(costs, limit), Oracle(costs, limit)
    allowed = limit * costs.alone * _ROUNDING
    summed = limit == math.inf or bool((work_of(costs, found) <= allowed).all())
    return Tried(
        found.seconds,
        math.isclose(oracle.seconds(kinds(costs, found)), found.seconds, rel_tol=EXACTLY),
        oracle.fastest(),
        found.seconds,
        limit == math.inf or keeps_on_edges(costs, found, allowed),
        summed,
        capacity_is_kept(costs, found) and finish(costs, found) <= found.seconds * (1 + EXACTLY),
    )


def of_job(rng: random.Random, edges: tuple[tuple[int, int], ...], counts: tuple[int, ...]) -> Tried:
    """A limit that all layers keep to together."""
    costs, limit = random_costs(rng, edges, counts), rng.choice(LIMITS[:-1])
    found, bound = fastest_together(costs, limit)
    allowed = budget(costs, limit)
    is_kept = float(work_of(costs, found).sum()) <= allowed
    every = itertools.product(range(len(costs.counts)), repeat=len(costs.names))
    best = min(seconds for seconds, work in (both(costs, plan) for plan in every) if work <= allowed)
    return Tried(
        found.seconds,
        math.isclose(both(costs, kinds(costs, found))[0], found.seconds, rel_tol=EXACTLY),
        best,
        bound,
        is_kept,
        is_kept,
        capacity_is_kept(costs, found),
    )


def a_chain(rng: random.Random) -> tuple[tuple[int, int], ...]:
    """Of some layers."""
    return chain(rng.randint(2, LONGEST_CHAIN))


def a_block(rng: random.Random) -> tuple[tuple[int, int], ...]:
    """One of those that there are."""
    return rng.choice(EDGES_OF_BLOCKS)


FAMILIES: dict[str, Callable[[random.Random], Tried]] = {
    "chains": lambda rng: of_layers(rng, a_chain(rng), POWERS),
    "chains, any numbers of devices": lambda rng: of_layers(rng, a_chain(rng), any_counts(rng)),
    "blocks of branches": lambda rng: of_layers(rng, a_block(rng), POWERS),
    "blocks of branches, any numbers of devices": lambda rng: of_layers(rng, a_block(rng), any_counts(rng)),
    "chains, limit of the job": lambda rng: of_job(rng, a_chain(rng), POWERS),
    "chains, limit of the job, any numbers of devices": lambda rng: of_job(
        rng, a_chain(rng), any_counts(rng)
    ),
}


def tried(family: str, seed: int) -> Tried:
    """One trial of a family, always the same one."""
    return FAMILIES[family](random.Random(f"{family} {seed}"))


def kinds(costs: LayerCosts, choice: Choice) -> tuple[int, ...]:
    """Of each layer which of the numbers of devices it has."""
    return tuple(costs.counts.index(count) for count in choice.count)


def keeps_on_edges(costs: LayerCosts, found: Choice, allowed: np.ndarray) -> bool:
    """Does each layer, with what each of its edges by itself moves, keep to its device-seconds?"""
    level = kinds(costs, found)
    if found.count[0] * costs.own[0, level[0]] > allowed[0]:
        return False
    return all(
        found.count[here] * (costs.own[here, level[here]] + moves(costs, found, edge)) <= allowed[here]
        for edge, (_, here) in enumerate(costs.edges)
    )


def moves(costs: LayerCosts, found: Choice, edge: int) -> float:
    """Seconds that an edge takes, by where its layers are."""
    before, here = costs.edges[edge]
    level = kinds(costs, found)
    table = costs.near if found.first[before] == found.first[here] else costs.far
    return float(table[edge, level[before], level[here]])


def capacity_is_kept(costs: LayerCosts, found: Choice) -> bool:
    """Each layer's devices are some that there are."""
    places = zip(found.first, found.count, strict=True)
    return all(first >= 0 and first + count <= costs.counts[-1] for first, count in places)


def finish(costs: LayerCosts, found: Choice) -> float:
    """When the last layer has run, if each waits for what it reads and for nothing else."""
    level = kinds(costs, found)
    done: list[float] = []
    for here in range(len(costs.names)):
        read = [(edge, before) for edge, (before, reader) in enumerate(costs.edges) if reader == here]
        begins = [done[before] + moves(costs, found, edge) for edge, before in read]
        done.append(max(begins, default=0.0) + costs.own[here, level[here]])
    return done[-1]


def budget(costs: LayerCosts, limit: float) -> float:
    """Device-seconds that all layers may take together."""
    return limit * float(costs.alone.sum()) * (1 + 1e-8)


def both(costs: LayerCosts, plan: Sequence[int]) -> tuple[float, float]:
    """Seconds and device-seconds of a chain."""
    seconds = np.array([costs.own[layer, kind] for layer, kind in enumerate(plan)])
    seconds[1:] += [costs.near[n, plan[n], plan[n + 1]] for n in range(len(plan) - 1)]
    return float(seconds.sum()), float((seconds * np.array(costs.counts)[list(plan)]).sum())
