"""Reduces among workers that are not equally fast, and groups of them, as SimPy processes."""

from collections.abc import Generator, Iterator
from typing import Any

import simpy

from tfwave.stragglers.meetings import BETWEEN, Meeting
from tfwave.stragglers.simulate import Reduce, Rule


class Oracle:
    """Workers and a coordinator as SimPy processes, which tell each other by events."""

    def __init__(
        self, env: simpy.Environment, rule: Rule, steps: list[list[float]], reduce_seconds: float
    ) -> None:
        self.env = env
        self.rule, self.steps, self.reduce_seconds = rule, steps, reduce_seconds
        self.boxes = [0] * len(steps)
        self.made = self.env.event()
        self.freed = self.env.event()
        self.reduces: list[Reduce] = []
        for worker in range(len(steps)):
            self.env.process(self._work(worker))

    def _work(self, worker: int) -> Generator[simpy.Event, Any, None]:
        for seconds in self.steps[worker]:
            yield self.env.timeout(seconds)
            self.boxes[worker] += 1
            made, self.made = self.made, self.env.event()
            made.succeed()
            if self.boxes[worker] >= self.rule.ahead:
                yield self.freed

    def reduce_all(self, probed: list[list[int]]) -> Generator[simpy.Event, Any, None]:
        for each in probed:
            yield from self.reduce(each)

    def reduce(self, probed: list[int]) -> Generator[simpy.Event, Any, None]:
        begin = self.env.now
        while not self._may_go(probed):
            yield self.made
        limit = self.env.timeout(self.rule.grace)
        while self.rule.grace and not all(self.boxes) and not limit.processed:
            yield self.made | limit
        gave, self.boxes = tuple(self.boxes), [0] * len(self.boxes)
        go = self.env.now
        if self.rule.ahead:
            self._free()
        yield self.env.timeout(self.reduce_seconds)
        self.reduces.append(Reduce(begin, go, self.env.now, gave))
        if not self.rule.ahead:
            self._free()

    def _may_go(self, probed: list[int]) -> bool:
        return all(self.boxes) if self.rule.probes is None else any(self.boxes[i] for i in probed)

    def _free(self) -> None:
        freed, self.freed = self.freed, self.env.event()
        freed.succeed()


class GroupOracle:
    """A group: its ring, and its leader, who stands in line at the server."""

    def __init__(
        self, ring: Oracle, probed: list[list[int]], server: simpy.Resource, exchange_seconds: float
    ) -> None:
        self.ring, self.env = ring, ring.env
        self._probed: Iterator[list[int]] = iter(probed)
        self._server, self._exchange_seconds = server, exchange_seconds
        self.meetings: list[Meeting] = []

    def live(self, until: float) -> Generator[simpy.Event, Any, None]:
        untold, leader = 0, None
        while self.env.now < until:
            if leader is not None and leader.triggered:
                leader = None
                yield self.env.timeout(self.ring.reduce_seconds)
            elif untold < BETWEEN:
                yield from self.ring.reduce(next(self._probed))
                untold += 1
            elif leader is None:
                leader, untold = self.env.process(self._visit()), 0
            else:
                yield leader

    def _visit(self) -> Generator[simpy.Event, Any, None]:
        asked = self.env.now
        with self._server.request() as turn:
            yield turn
            yield self.env.timeout(self._exchange_seconds)
        self.meetings.append(Meeting(asked, self.env.now))
