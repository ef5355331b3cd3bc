"""The discrete-event kernel: tasks with durations on pools of servers and on lanes, one heap of events.

It knows neither graphs nor TensorFlow. Time is counted in integers (ticks), so no sum and no tie depends on the
order of summation. Work goes instant by instant:

1. All that ends at this instant ends, and lets go what waited for it; what takes no time is done at once.
2. Idle lanes choose. Where that ends something at this very instant, back to 1.
3. Idle servers choose. Where that ends something at this very instant, back to 1.

So each choice sees all that is ready at its instant, and the order of events within one changes nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush

from tfwave.plan.discipline import Discipline
from tfwave.sim.sharing import Flows, Network

UNTIMED = -1
"""The unit of a task that needs none: it starts when it is ready, and takes its duration."""


@dataclass(frozen=True)
class Pool:
    """Servers with one ready queue: `fifo` by the instant at which tasks became ready, else by the pool's order."""

    servers: int = 1
    fifo: bool = True


@dataclass(frozen=True)
class Lane:
    """Serves one task at a time, each `latency` ticks before it has arrived; the next is served meanwhile.

    By a counter strictly in the order given: it idles until the next is ready. By priority the first in the order
    given of those that are ready. By none as they become ready; of those ready at one instant, in the order given.

    `ports` are the two that its bytes pass. Lanes that are busy at one time share their ports' bandwidth.
    """

    discipline: Discipline | None = None
    latency: int = 0
    ports: tuple[int, ...] = ()


@dataclass(frozen=True)
class Job:
    """Tasks by number. Units are numbered too: first the pools, then the lanes.

    A task becomes ready when it has been let go `pending` times. The duration of a task of a lane is what it
    takes with all of the bandwidth of its ports.
    """

    units: Sequence[int]
    durations: Sequence[int]
    """How long each task takes, in ticks."""
    successors: Sequence[Sequence[int]]
    pending: Sequence[int]
    pools: Sequence[Pool]
    lanes: Sequence[Lane]
    pooled: Sequence[int]
    """The tasks of all pools in the pools' order: decides between tasks that are equal otherwise."""
    carried: Sequence[int]
    """The tasks of all lanes in their order, if a run is given no other."""
    bandwidths: Sequence[float] = ()
    """Of each port; infinite where nothing has to be shared."""

    @cached_property
    def keys(self) -> list[int]:
        """The place of each task of a pool in the pools' order."""
        keys = [0] * len(self.units)
        for key, task in enumerate(self.pooled):
            keys[task] = key
        return keys

    @cached_property
    def network(self) -> Network:
        """How the lanes share the ports."""
        first = len(self.pools)
        ports = {lane: spec.ports for lane, spec in enumerate(self.lanes, first)}
        return Network(ports, self.bandwidths)


@dataclass(frozen=True)
class Outcome:
    """When each task began and ended, in ticks (-1: never), and when all was over.

    A task of a lane ends when it has arrived. `blocked` are the tasks that counters wait for in vain.
    """

    begin: list[int]
    end: list[int]
    finish: int
    blocked: list[int]


def run(job: Job, order: Sequence[int] | None = None) -> Outcome:
    """Run a job, with the tasks of all lanes (`carried`) in this order, most urgent first, or in the job's own."""
    return _Run(job, job.carried if order is None else order).finish()


class _Run:
    """The state of one run.

    An event is one integer, ``time << bits | what``, cheaper to compare than a tuple. By multiples of the number of
    tasks (`size`), `what` says that task ``what % size`` of a pool has ended (0), has left its lane (1), or has
    arrived or ended without a unit (2).

    An entry of a queue is the key of a task, its place in the order. Where the queue goes by time, the number of
    the instant, in multiples of `size`, is added to it.
    """

    def __init__(self, job: Job, order: Sequence[int]) -> None:
        pools, lanes = job.pools, job.lanes
        self._job = job
        self._size = len(job.units)
        self._units, self._durations, self._successors = job.units, job.durations, job.successors
        self._bits = (3 * self._size).bit_length()
        self._mask = (1 << self._bits) - 1
        self._now = 0
        self._instant = 0
        self._events: list[int] = []
        self._pending = list(job.pending)
        self._by_key = [*job.pooled, *order]
        self._keys = list(job.keys)
        for key, task in enumerate(order, len(job.pooled)):
            self._keys[task] = key
        self._queues: list[list[int]] = [[] for _ in range(len(pools) + len(lanes))]
        self._by_time = [p.fifo for p in pools] + [lane.discipline is None for lane in lanes]
        self._free = [p.servers for p in pools] + [1] * len(lanes)
        self._woken_pools: list[int] = []
        self._woken_lanes: list[int] = []
        self._woken = [self._woken_pools] * len(pools) + [self._woken_lanes] * len(lanes)
        self._turns = self._counters(order)
        self._flows = Flows(job.network)
        self._begin = [-1] * self._size
        self._end = [-1] * self._size

    def finish(self) -> Outcome:
        """Run to the end."""
        untimed: list[int] = []
        for task, count in enumerate(self._pending):
            if not count:
                self._make_ready(task, untimed)
        self._end_tasks(untimed)
        self._loop()
        blocked = [self._by_key[turns[-1]] for turns in self._turns.values() if turns]
        return Outcome(self._begin, self._end, max(0, max(self._end, default=0)), blocked)

    def _counters(self, order: Sequence[int]) -> dict[int, list[int]]:
        """Per lane with a counter: the keys of its tasks, the next one last."""
        lanes = enumerate(self._job.lanes, len(self._job.pools))
        turns = {unit: list[int]() for unit, lane in lanes if lane.discipline is Discipline.COUNTER}
        for task in reversed(order):
            unit = self._job.units[task]
            if unit in turns:
                turns[unit].append(self._keys[task])
        return turns

    def _loop(self) -> None:
        """Play instant after instant; the end of a task of a pool, the most frequent event, is handled here."""
        events, bits, mask, size = self._events, self._bits, self._mask, self._size
        units, free, end = self._units, self._free, self._end
        pending, successors, make_ready = self._pending, self._successors, self._make_ready
        woken_pools, woken_lanes = self._woken_pools, self._woken_lanes
        untimed: list[int] = []
        now, limit = 0, 1 << bits
        while True:
            while events and events[0] < limit:
                task = heappop(events) & mask
                if task >= size:
                    self._end_off_pools(task - size)
                    continue
                pool = units[task]
                free[pool] += 1
                woken_pools.append(pool)
                end[task] = now
                for successor in successors[task]:
                    pending[successor] -= 1
                    if not pending[successor]:
                        make_ready(successor, untimed)
                if untimed:
                    self._end_tasks(untimed)
                    untimed.clear()
            if woken_lanes:
                self._serve_lanes()
            elif woken_pools:
                self._serve_pools()
            elif events:
                self._now = now = events[0] >> bits
                self._instant += size
                limit = now + 1 << bits
            else:
                return

    def _end_off_pools(self, event: int) -> None:
        """Case 1: a task needed no unit, or has arrived. Case 2: it has left its lane; it arrives now or later."""
        if event >= self._size:
            self._end_tasks([event - self._size])
            return
        lane = self._units[event]
        if lane in self._job.network.ports and not self._flows.stop(lane, event, self._now):
            return
        self._free[lane] = 1
        self._woken_lanes.append(lane)
        latency = self._job.lanes[lane - len(self._job.pools)].latency
        if latency:
            self._push(self._now + latency, event + 2 * self._size)
        else:
            self._end_tasks([event])

    def _end_tasks(self, ended: list[int]) -> None:
        """End tasks, and with them those that were let go by that and take no time."""
        pending = self._pending
        for task in ended:
            self._end[task] = self._now
            for successor in self._successors[task]:
                pending[successor] -= 1
                if not pending[successor]:
                    self._make_ready(successor, ended)

    def _make_ready(self, task: int, untimed: list[int]) -> None:
        """Queue a task at its unit, or start it; one that takes no time is added to `untimed`."""
        unit = self._units[task]
        if unit >= 0:
            key = self._keys[task]
            heappush(self._queues[unit], self._instant + key if self._by_time[unit] else key)
            if self._free[unit]:
                self._woken[unit].append(unit)
            return
        self._begin[task] = self._now
        duration = self._durations[task]
        if duration:
            self._push(self._now + duration, task + 2 * self._size)
        else:
            untimed.append(task)

    def _serve_pools(self) -> None:
        free, now = self._free, self._now
        for pool in self._woken_pools:
            queue = self._queues[pool]
            while queue and free[pool]:
                free[pool] -= 1
                task = self._by_key[heappop(queue) % self._size]
                self._begin[task] = now
                heappush(self._events, now + self._durations[task] << self._bits | task)
        self._woken_pools.clear()

    def _serve_lanes(self) -> None:
        for lane in self._woken_lanes:
            if self._free[lane] and self._may_start(lane):
                self._free[lane] = 0
                task = self._by_key[heappop(self._queues[lane]) % self._size]
                self._begin[task] = self._now
                if lane in self._job.network.ports:
                    self._flows.start(lane, task, self._durations[task])
                else:
                    self._push(self._now + self._durations[task], task + self._size)
        self._woken_lanes.clear()
        for due, task in self._flows.retimed(self._now):
            self._push(due, task + self._size)

    def _may_start(self, lane: int) -> bool:
        """Whether the first task in the lane's queue may start; if it is in its turn, the turn is over."""
        queue = self._queues[lane]
        if not queue or lane not in self._turns:
            return bool(queue)
        turns = self._turns[lane]
        if queue[0] != turns[-1]:
            return False
        turns.pop()
        return True

    def _push(self, time: int, event: int) -> None:
        heappush(self._events, time << self._bits | event)
