"""How long ops and copies take that share the cores, or that a GPU runs."""

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import count

BESIDE = 1.25
"""On cores two ops side by side get so many times as much done as one alone, which mostly uses all by itself.

Measured on two cores with steps like those of ResNet, VGG, Inception, U-Net and BERT: 1.1 to 1.3. What copies takes
its share, too.
"""


@dataclass(frozen=True)
class Lanes:
    """What runs at once: so many ops, and one copy.

    Attributes:
        ops: more at once get no more done.
        copied: bytes a second that a copy to the host's memory, or from it, takes away or brings.
        beside: so many times as much gets done as one gets done alone; None: nothing takes anything from others.
    """

    ops: int
    copied: float
    beside: float | None = None

    def rate(self, ops: int, copies: int) -> float:
        """Seconds of its work that each gets done in one."""
        busy = ops + copies
        return 1.0 if self.beside is None or busy < 2 else self.beside / busy


_ON_CORES = Lanes(2, 4e9, BESIDE)
"""A thread of its own moved 2 to 6 GB/s out of a pool and 4 to 12 in, in touched pages."""
_ON_GPU = Lanes(1, 20e9)
"""Kernels come one after the other on a stream, and copies on others.

Over PCIe 5 these moved 51 GB/s; older links have a half of that, or a quarter.
"""


def lanes_of(device: str) -> Lanes:
    """Those of a device, by its name."""
    return _ON_GPU if "gpu" in device.lower() else _ON_CORES


@dataclass(frozen=True)
class Task:
    """Something that takes time.

    Attributes:
        seconds: alone.
        after: the numbers of those that are done before.
        copies: does it run on the lane of the copies?
    """

    seconds: float
    after: Collection[int]
    copies: bool = False


@dataclass(frozen=True)
class Run:
    """What ran.

    Attributes:
        seconds: until all was done.
        begins: by task; moments are numbered, and in each one of them begins or ends.
        ends: likewise.
    """

    seconds: float
    begins: Sequence[int]
    ends: Sequence[int]


def run(tasks: Sequence[Task], lanes: Lanes) -> Run:
    """What is ready first begins first."""
    return _Threads(tasks, lanes).run()


class _Threads:
    def __init__(self, tasks: Sequence[Task], lanes: Lanes) -> None:
        self._tasks, self._lanes = tasks, lanes
        self._missing = [len(task.after) for task in tasks]
        self._followers: list[list[int]] = [[] for _ in tasks]
        for number, task in enumerate(tasks):
            for source in task.after:
                self._followers[source].append(number)
        self._ready: tuple[deque[int], deque[int]] = deque(), deque()
        """Ops, and copies."""
        self._left: dict[int, float] = {}
        """Of those that run: the seconds that each still takes alone."""
        self._running = [0, 0]
        self._begins, self._ends = [0] * len(tasks), [0] * len(tasks)
        self._moment = count()

    def run(self) -> Run:
        now = 0.0
        for number, missing in enumerate(self._missing):
            if not missing:
                self._offer(number)
        while self._begin():
            done = min(self._left, key=lambda number: (self._left[number], number))
            work = self._left.pop(done)
            now += work / self._lanes.rate(*self._running)
            for number in self._left:
                self._left[number] -= work
            self._end(done)
        return Run(now, self._begins, self._ends)

    def _begin(self) -> bool:
        """Fill the lanes; is there anything that runs?"""
        for copies, lanes in enumerate((self._lanes.ops, 1)):
            while self._ready[copies] and self._running[copies] < lanes:
                number = self._ready[copies].popleft()
                self._left[number] = self._tasks[number].seconds
                self._begins[number] = next(self._moment)
                self._running[copies] += 1
        return bool(self._left)

    def _end(self, number: int) -> None:
        self._running[self._tasks[number].copies] -= 1
        self._ends[number] = next(self._moment)
        for follower in self._followers[number]:
            self._missing[follower] -= 1
            if not self._missing[follower]:
                self._offer(follower)

    def _offer(self, number: int) -> None:
        self._ready[self._tasks[number].copies].append(number)
