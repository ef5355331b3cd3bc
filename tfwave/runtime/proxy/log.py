"""The last hand-offs, in a ring of fixed capacity."""

import threading
from collections import deque
from collections.abc import Iterable
from enum import IntEnum
from itertools import islice

from tfwave.plan.discipline import Discipline
from tfwave.proto import control_pb2
from tfwave.runtime.proxy.table import PlannedChannel

CAPACITY = 65536


class Reason(IntEnum):
    """Why a tensor left when it did: as in control.proto."""

    ORDERED = 0
    RELEASED = 1
    LATE = 2
    OFF = 3


class HandOffLog:
    """Read by cursor: a hand-off's position since the log was made. Thread-safe."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._mu = threading.Lock()
        self._ring: deque[control_pb2.HandOff] = deque(maxlen=capacity)
        self._channels: tuple[PlannedChannel, ...] = ()
        self._generation = 0  # of the plans
        self._begin = 0  # first of the present plans
        self._end = 0
        self._read = 0  # the furthest that anyone has read
        self._dropped = 0

    def begin_plans(self, generation: int, channels: Iterable[PlannedChannel]) -> None:
        """Forget what is there: its channels are of other plans."""
        with self._mu:
            self._generation = generation
            self._channels = tuple(channels)
            self._begin = self._end
            self._ring.clear()

    def append(self, hand_off: control_pb2.HandOff, generation: int) -> None:
        """Note a hand-off, unless it is of earlier plans than those last begun."""
        with self._mu:
            if generation != self._generation:
                return
            if len(self._ring) == self._ring.maxlen and self._oldest >= self._read:
                self._dropped += 1
            self._ring.append(hand_off)
            self._end += 1

    def read(self, cursor: int) -> control_pb2.HandOffs:
        """All hand-offs from `cursor` on, and how many were overwritten since."""
        with self._mu:
            wanted = min(max(cursor, self._begin), self._end)
            start = max(wanted, self._oldest)
            self._read = self._end
            answer = control_pb2.HandOffs(next_cursor=self._end, dropped=start - wanted)
            for channel, function in self._channels:
                answer.channels.add(
                    source_device=channel.source,
                    destination_device=channel.destination,
                    function=function,
                    discipline=Discipline.COUNTER,
                )
            answer.hand_offs.extend(islice(self._ring, start - self._oldest, None))
            return answer

    @property
    def dropped(self) -> int:
        """Hand-offs that were overwritten before anyone read them."""
        with self._mu:
            return self._dropped

    @property
    def _oldest(self) -> int:
        return self._end - len(self._ring)
