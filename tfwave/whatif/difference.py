"""What differs between two timelines: when things begin, how long they take, and what only one has."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import nlargest

from tfwave.graph.names import edge_source, natural_key
from tfwave.sim.timeline import Interval, Timeline


@dataclass(frozen=True)
class Shift:
    """An op or transfer that both timelines have; seconds."""

    resource: str
    name: str
    begin_a: float
    begin_b: float
    seconds_a: float
    seconds_b: float

    @property
    def later(self) -> float:
        """How much later it begins in B."""
        return self.begin_b - self.begin_a

    @property
    def longer(self) -> float:
        """How much longer it takes in B."""
        return self.seconds_b - self.seconds_a


@dataclass(frozen=True)
class Use:
    """Of one resource: the seconds of all that it did, and the share of the step in which it did anything.

    None where a timeline does not have it.
    """

    resource: str
    seconds_a: float | None
    seconds_b: float | None
    busy_a: float | None
    busy_b: float | None


@dataclass(frozen=True)
class TimelineDifference:
    """By name of resource and of op or transfer; `only_a` and `only_b` as (resource, name)."""

    makespan_a: float
    makespan_b: float
    uses: tuple[Use, ...]
    shifts: tuple[Shift, ...]
    only_a: tuple[tuple[str, str], ...]
    only_b: tuple[tuple[str, str], ...]

    def most_shifted(self, count: int) -> list[Shift]:
        """Those whose begin differs most."""
        return nlargest(count, (s for s in self.shifts if s.later), key=lambda s: abs(s.later))

    def most_changed(self, count: int) -> list[Shift]:
        """Those whose duration differs most."""
        return nlargest(count, (s for s in self.shifts if s.longer), key=lambda s: abs(s.longer))


def compare(a: Timeline, b: Timeline) -> TimelineDifference:
    """Compare by name: ops by that of their node, transfers by that of their source node.

    The numbers that TensorFlow gives to edges differ between graphs; several transfers of one name on a channel
    are told apart by their sequence. What is control only is left out.
    """
    first, second = _by_name(a), _by_name(b)
    both = sorted(first.keys() & second.keys(), key=_in_words)
    shifts = (_shift(key, first[key], second[key]) for key in both)
    return TimelineDifference(
        a.makespan_seconds,
        b.makespan_seconds,
        tuple(_uses(a, b)),
        tuple(shifts),
        tuple(sorted(first.keys() - second.keys(), key=_in_words)),
        tuple(sorted(second.keys() - first.keys(), key=_in_words)),
    )


def _shift(key: tuple[str, str], a: Interval, b: Interval) -> Shift:
    return Shift(*key, a.begin_seconds, b.begin_seconds, a.seconds, b.seconds)


def _in_words(key: tuple[str, str]) -> tuple[object, ...]:
    return natural_key(key[0]), natural_key(key[1]), key


def _by_name(timeline: Timeline) -> dict[tuple[str, str], Interval]:
    groups: dict[tuple[str, str], list[Interval]] = defaultdict(list)
    for interval in timeline.intervals:
        if interval.kind != "control":
            name = edge_source(interval.name) if interval.kind == "transfer" else interval.name
            groups[interval.resource, name].append(interval)
    return {
        (resource, f"{name} ({i})" if i else name): interval
        for (resource, name), group in groups.items()
        for i, interval in enumerate(sorted(group, key=lambda v: (natural_key(v.name), v)))
    }


def _uses(a: Timeline, b: Timeline) -> Iterator[Use]:
    first, second = _work(a), _work(b)
    for resource in sorted(first.keys() | second.keys(), key=natural_key):
        one, other = first.get(resource), second.get(resource)
        yield Use(
            resource,
            one and one[0],
            other and other[0],
            one and one[1],
            other and other[1],
        )


def _work(timeline: Timeline) -> dict[str, tuple[float, float]]:
    """Seconds and busy share by resource; a channel works on one transfer at a time, so its seconds add up."""
    own: dict[str, list[Interval]] = {resource: [] for resource in timeline.servers}
    for interval in timeline.intervals:
        if interval.kind != "control":
            own[interval.resource].append(interval)
    total = timeline.makespan_seconds or math.inf
    work: dict[str, tuple[float, float]] = {}
    for resource, intervals in own.items():
        seconds = math.fsum(i.seconds for i in intervals)
        one_by_one = all(i.kind == "transfer" for i in intervals)
        work[resource] = seconds, (seconds if one_by_one else _covered(intervals)) / total
    return work


def _covered(intervals: Iterable[Interval]) -> float:
    """Seconds in which at least one was under way."""
    covered, until = 0.0, 0.0
    for interval in sorted(intervals):
        covered += max(0.0, interval.end_seconds - max(until, interval.begin_seconds))
        until = max(until, interval.end_seconds)
    return covered
