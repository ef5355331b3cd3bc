"""The simulator's model again, as SimPy processes in exact fractions; shares no code with what it checks."""

import random
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from math import inf

import simpy

from tfwave.plan.discipline import Discipline
from tfwave.sim.engine import UNTIMED, Job, Lane, Pool

LANES_CHOOSE, POOLS_CHOOSE = 5, 6
"""Priorities after all that SimPy itself schedules at one instant."""


@dataclass
class Choice:
    """The moment of an instant at which all units of a kind choose together."""

    env: simpy.Environment
    priority: int
    woken: list["Unit"] = field(default_factory=list)

    def wake(self, unit: "Unit") -> None:
        if not self.woken:
            settled = simpy.Event(self.env)
            settled._ok, settled._value = True, None
            settled.callbacks.append(self._choose)
            self.env.schedule(settled, priority=self.priority)
        self.woken.append(unit)

    def _choose(self, _: simpy.Event) -> None:
        woken, self.woken = self.woken, []
        for unit in woken:
            unit.choose()


@dataclass
class Unit:
    """A pool or a lane: `place` says which of the waiting is next, `turns` (of a counter) whose turn it is."""

    choice: Choice
    servers: int
    by_time: bool
    place: dict[int, int]
    turns: list[int] | None = None
    waiting: list[tuple[Fraction, int, simpy.Event]] = field(default_factory=list)

    def request(self, task: int) -> simpy.Event:
        env = self.choice.env
        granted = env.event()
        self.waiting.append((env.now if self.by_time else Fraction(0), self.place[task], granted))
        self.choice.wake(self)
        return granted

    def release(self) -> None:
        self.servers += 1
        self.choice.wake(self)

    def choose(self) -> None:
        while self.servers and self.waiting:
            first = min(self.waiting, key=lambda w: w[:2])
            if self.turns is not None:
                if first[1] != self.turns[0]:
                    return
                self.turns.pop(0)
            self.waiting.remove(first)
            self.servers -= 1
            first[2].succeed()


@dataclass
class Wires:
    """What is under way shares the ports; each who comes or goes makes all others think again."""

    capacities: list[Fraction | float]
    ports: dict[int, tuple[int, ...]]
    under_way: dict[int, simpy.Process] = field(default_factory=dict)

    def join(self, lane: int, process: simpy.Process) -> None:
        self.under_way[lane] = process
        self._disturb(lane)

    def part(self, lane: int) -> None:
        del self.under_way[lane]
        self._disturb(lane)

    def _disturb(self, lane: int) -> None:
        for other, process in self.under_way.items():
            if other != lane:
                process.interrupt()

    def speed(self, lane: int) -> Fraction:
        alone = min((self.capacities[p] for p in self.ports[lane]), default=inf)
        return Fraction(1) if alone == inf else self._rates()[lane] / Fraction(alone)

    def _rates(self) -> dict[int, Fraction]:
        """Raise the rates of all together; those that pass a port which is full stay as they are."""
        rates: dict[int, Fraction] = {lane: Fraction(0) for lane in self.under_way}
        growing = {lane for lane in rates if any(self.capacities[p] != inf for p in self.ports[lane])}
        while growing:
            room: dict[int, Fraction] = {}
            for port, capacity in enumerate(self.capacities):
                users = [lane for lane in rates if port in self.ports[lane]]
                still = growing.intersection(users)
                if still and capacity != inf:
                    room[port] = (Fraction(capacity) - sum(rates[lane] for lane in users)) / len(still)
            step = min(room.values())
            for lane in growing:
                rates[lane] += step
            full = {port for port, left in room.items() if left == step}
            growing -= {lane for lane in growing if full.intersection(self.ports[lane])}
        return rates


@dataclass
class Model:
    """One run of a job in SimPy: `begin` and `end` of each task that ran."""

    job: Job
    order: Sequence[int]
    begin: dict[int, Fraction] = field(default_factory=dict)
    end: dict[int, Fraction] = field(default_factory=dict)

    def run(self) -> "Model":
        env = self.env = simpy.Environment(initial_time=Fraction(0))
        tasks = range(len(self.job.units))
        self.units = [*self._pools(), *self._lanes()]
        first = len(self.job.pools)
        self.wires = Wires(
            [b if b == inf else Fraction(b) for b in self.job.bandwidths],
            {lane: spec.ports for lane, spec in enumerate(self.job.lanes, first)},
        )
        self.done = [env.event() for _ in tasks]
        before: list[list[simpy.Event]] = [[] for _ in tasks]
        for task in tasks:
            for successor in self.job.successors[task]:
                before[successor].append(self.done[task])
        for task in tasks:
            env.process(self._task(task, before[task]))
        env.run()
        return self

    @property
    def finish(self) -> Fraction:
        return max(self.end.values(), default=Fraction(0))

    def _pools(self) -> Iterator[Unit]:
        place = {task: i for i, task in enumerate(self.job.pooled)}
        choice = Choice(self.env, POOLS_CHOOSE)
        for pool in self.job.pools:
            yield Unit(choice, pool.servers, pool.fifo, place)

    def _lanes(self) -> Iterator[Unit]:
        place = {task: i for i, task in enumerate(self.order)}
        choice = Choice(self.env, LANES_CHOOSE)
        for number, lane in enumerate(self.job.lanes, len(self.job.pools)):
            turns = None
            if lane.discipline is Discipline.COUNTER:
                turns = [place[task] for task in self.order if self.job.units[task] == number]
            yield Unit(choice, 1, lane.discipline is None, place, turns)

    def _task(self, task: int, before: Sequence[simpy.Event]) -> Generator[simpy.Event]:
        yield self.env.all_of(before)
        number = self.job.units[task]
        duration = Fraction(self.job.durations[task])
        if number == UNTIMED:
            self.begin[task] = self.env.now
            yield self.env.timeout(duration)
        else:
            unit = self.units[number]
            yield unit.request(task)
            self.begin[task] = self.env.now
            if number < len(self.job.pools):
                yield self.env.timeout(duration)
                unit.release()
            else:
                yield self.env.process(self._wire(number, duration))
                unit.release()
                yield self.env.timeout(Fraction(self.job.lanes[number - len(self.job.pools)].latency))
        self.end[task] = self.env.now
        self.done[task].succeed()

    def _wire(self, lane: int, left: Fraction) -> Generator[simpy.Event]:
        self.wires.join(lane, self.env.active_process)
        while left:
            speed, since = self.wires.speed(lane), self.env.now
            try:
                yield self.env.timeout(left / speed)
                left = Fraction(0)
            except simpy.Interrupt:
                left -= (self.env.now - since) * speed
        self.wires.part(lane)


def random_kernel_job(rng: random.Random, *, shared: bool) -> Job:
    """Workers and servers with pools, lanes between them and tasks that wait for one another.

    Where lanes share ports, durations are of many digits, so that nothing ends together by chance; where none
    does they are short, so that much does.
    """
    hosts = rng.randint(2, 5)
    pools = [Pool(rng.randint(1, 3), rng.random() < 0.5) for _ in range(hosts)]
    pairs = [(a, b) for a in range(hosts) for b in range(hosts) if a != b]
    unit = 10**9
    draw = partial(rng.randint, 1, 1000 * unit) if shared else lambda: rng.randint(1, 4) * unit
    lanes = [
        Lane(rng.choice((None, *Discipline)), rng.choice((0, 0, 1, 7)) * draw() // 7, (a, hosts + b))
        for a, b in rng.sample(pairs, rng.randint(1, min(8, len(pairs))))
    ]
    count = rng.randint(5, 45)
    units = [rng.choice((UNTIMED, *range(hosts), *range(hosts, hosts + len(lanes)))) for _ in range(count)]
    delays = (0, 0, draw())
    durations = [draw() if unit >= 0 else rng.choice(delays) for unit in units]
    names = rng.sample(range(count), count)
    successors: list[list[int]] = [[] for _ in range(count)]
    pending = [0] * count
    for late in range(1, count):
        for early in rng.choices(range(late), k=rng.choice((0, 1, 1, 2, 3))):
            successors[names[early]].append(names[late])
            pending[names[late]] += 1
    carried = [task for task in names if units[task] >= hosts]
    speeds = [rng.choice((1, 2, 2.5, 10, inf)) for _ in range(2 * hosts)]
    return Job(
        units,
        durations,
        successors,
        pending,
        pools,
        lanes,
        pooled=rng.sample(pooled := [t for t in names if 0 <= units[t] < hosts], len(pooled)),
        carried=carried if rng.random() < 0.6 else rng.sample(carried, len(carried)),
        bandwidths=speeds if shared else [inf] * (2 * hosts),
    )
