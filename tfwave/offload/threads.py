"""How long ops and copies take that share the cores, or that a GPU runs."""

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

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
        copied: bytes a second that a copy to the host's memory, or from it, takes away or brings, after
        handed: seconds in which it is handed to the thread that makes it, and back.
        beside: so many times as much gets done as one gets done alone; None: nothing takes anything from others.
    """

    ops: int
    copied: float
    handed: float = 0.0
    beside: float | None = None

    def copy_seconds(self, size: float) -> float:
        """Of so many bytes, one way."""
        return self.handed + size / self.copied

    def rate(self, ops: int, copies: int) -> float:
        """Seconds of its work that each gets done in one."""
        busy = ops + copies
        return 1.0 if self.beside is None or busy < 2 else self.beside / busy


_ON_CORES = Lanes(2, 4e9, 1e-4, BESIDE)
"""A thread of its own moved 2 to 6 GB/s out of a pool and 4 to 12 in, in touched pages.

In an LSTM-like step of 8,700 tiny ops 86 small copies took 9.4 ms, where those bytes take less than one.
"""
_ON_GPU = Lanes(1, 20e9)
"""Kernels come one after the other on a stream, and copies on others.

Over PCIe 5 these moved 51 GB/s; older links have a half of that, or a quarter.
"""


def is_gpu(device: str) -> bool:
    """By its name."""
    return "gpu" in device.lower()


def lanes_of(device: str) -> Lanes:
    """Those of a device."""
    return _ON_GPU if is_gpu(device) else _ON_CORES


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
        ready: by task: all that it waits for is done; moments are numbered, and in each one task begins or ends.
        begins: likewise: a lane is free, too.
        ends: likewise.
    """

    seconds: float
    ready: Sequence[int]
    begins: Sequence[int]
    ends: Sequence[int]


class Work:
    """Tasks on lanes: it can run in more than one way, with other seconds."""

    def __init__(self, tasks: Sequence[Task], lanes: Lanes) -> None:
        """What waits for what is the same in each run."""
        self._lanes = lanes
        self._seconds = [task.seconds for task in tasks]
        self._copies = [task.copies for task in tasks]
        self._missing = [len(task.after) for task in tasks]
        self._followers: list[list[int]] = [[] for _ in tasks]
        for number, task in enumerate(tasks):
            for source in task.after:
                self._followers[source].append(number)

    def run(self) -> Run:
        """What is ready first begins first."""
        return self._run(self._seconds)

    def raced(self, chance: Random, most: float) -> Run:
        """Another run: each task takes up to `most` times as long, or as short, and any op that is ready begins."""
        return self._run([seconds * most ** chance.uniform(-1, 1) for seconds in self._seconds], chance)

    def _run(self, seconds: Sequence[float], chance: Random | None = None) -> Run:
        """In one piece, as it is asked for thousands of tasks at a time, hundreds of times."""
        missing, readies = [*self._missing], [0] * len(seconds)
        begins, ends = [0] * len(seconds), [0] * len(seconds)
        ready: tuple[deque[int], deque[int]] = deque(), deque()
        for number, waits in enumerate(missing):
            if not waits:
                ready[self._copies[number]].append(number)
        next_of = partial(_any_of, chance) if chance else deque[int].popleft, deque[int].popleft
        running, left = [0, 0], list[list[float]]()
        """Ops and copies; and of each the seconds that it still takes alone, and its number."""
        now, moment = 0.0, 0
        while True:
            for copies, lanes in enumerate((self._lanes.ops, 1)):
                while ready[copies] and running[copies] < lanes:
                    number = next_of[copies](ready[copies])
                    left.append([seconds[number], number])
                    begins[number] = moment
                    moment += 1
                    running[copies] += 1
            if not left:
                return Run(now, readies, begins, ends)
            done = min(left)
            left.remove(done)
            now += done[0] / self._lanes.rate(*running)
            for other in left:
                other[0] -= done[0]
            number = int(done[1])
            ends[number] = moment
            moment += 1
            running[self._copies[number]] -= 1
            for follower in self._followers[number]:
                missing[follower] -= 1
                if not missing[follower]:
                    readies[follower] = moment
                    ready[self._copies[follower]].append(follower)


def _any_of(chance: Random, ready: deque[int]) -> int:
    ready.rotate(chance.randrange(len(ready)))
    return ready.popleft()
