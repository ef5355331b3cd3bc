"""Reduces among workers that are not equally fast: a simulation of RNA (ch. 5 of the thesis, with its errata)."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

MOST_REDUCES = 5000
"""After as many a simulation ends, however short the steps of some are beside those of others."""


@dataclass(frozen=True)
class Rule:
    """When a reduce goes, and how far a worker may be ahead of it.

    Attributes:
        probes: The workers asked, of which the first with a gradient lets the reduce go; None: it waits for all.
        ahead: The gradients that a worker may hold and go on; at 0 it stands still until the reduce has ended.
        grace: Seconds for which a reduce that could go waits for those who have nothing yet.
    """

    probes: int | None
    ahead: int
    grace: float = 0.0


@dataclass(frozen=True)
class Reduce:
    """One reduce: when it was asked for, went and ended (seconds), and how many gradients each worker gave."""

    begin: float
    go: float
    end: float
    gave: tuple[int, ...]


@dataclass
class _Workers:
    """Where each worker is: the end of its step (infinite while it stands still), and the gradients it holds."""

    rule: Rule
    times: Sequence[Iterator[float]]
    ends: list[float] = field(init=False)
    held: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.ends = [next(each) for each in self.times]
        self.held = [0] * len(self.times)

    def advance(self, to: float) -> None:
        """Let all steps end that end up to a time."""
        for i, times in enumerate(self.times):
            while self.ends[i] <= to:
                self.held[i] += 1
                self.ends[i] = self.ends[i] + next(times) if self.held[i] < self.rule.ahead else math.inf

    def ready(self, worker: int, now: float) -> float:
        """When a worker has a gradient."""
        return now if self.held[worker] else self.ends[worker]

    def hand_over(self, resume: float) -> tuple[int, ...]:
        """What each gives; those who stood still go on at `resume`."""
        gave = tuple(self.held)
        for i, end in enumerate(self.ends):
            self.held[i] = 0
            if end == math.inf:
                self.ends[i] = resume + next(self.times[i])
        return gave


class Ring:
    """Workers that reduce one time after the other, from second 0."""

    def __init__(
        self,
        rule: Rule,
        times: Sequence[Iterator[float]],
        probed: Iterator[Sequence[int]],
        reduce_seconds: float,
    ) -> None:
        """Say how, with each worker's step times, and the workers that each reduce asks."""
        self._rule, self._probed = rule, probed
        self._workers = _Workers(rule, times)
        self.reduce_seconds = reduce_seconds
        self.begin = 0.0
        self.done: list[Reduce] = []

    def is_under_way(self, until: float) -> bool:
        """Whether one more reduce is asked for before `until`."""
        return self.begin < until and len(self.done) < MOST_REDUCES

    def reduce(self) -> None:
        """Make one; workers compute meanwhile, but for those with a rule of `ahead` 0."""
        workers, rule, begin = self._workers, self._rule, self.begin
        workers.advance(begin)
        ready = [workers.ready(i, begin) for i in range(len(workers.held))]
        go = _go(rule, ready, next(self._probed))
        workers.advance(go)
        end = self.begin = go + self.reduce_seconds
        self.done.append(Reduce(begin, go, end, workers.hand_over(go if rule.ahead else end)))

    def pass_on(self) -> None:
        """Have something go round that is no gradient; it takes as long as a reduce."""
        self.begin += self.reduce_seconds


def simulate(
    rule: Rule,
    times: Sequence[Iterator[float]],
    probed: Iterator[Sequence[int]],
    *,
    reduce_seconds: float,
    until: float,
) -> list[Reduce]:
    """The reduces that are asked for before `until`, but no more than `MOST_REDUCES`.

    `probed` gives the workers that each of them asks.
    """
    ring = Ring(rule, times, probed, reduce_seconds)
    while ring.is_under_way(until):
        ring.reduce()
    return ring.done


def _go(rule: Rule, ready: Sequence[float], probed: Sequence[int]) -> float:
    if rule.probes is None:
        return max(ready)
    first = min(ready[i] for i in probed)
    return max(first, min(first + rule.grace, max(ready)))
