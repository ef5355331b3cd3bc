"""Groups of workers, each with a ring of its own, that meet at a parameter server (sec. 5.2): a simulation."""

from collections.abc import Sequence
from dataclasses import dataclass

from tfwave.stragglers.simulate import Ring

BETWEEN = 4
"""A leader meets the server every so many reduces of its group: a choice of tfwave's."""


@dataclass(frozen=True)
class Meeting:
    """One group's visit to the server, in seconds: its leader asks for it, and has the others' sums."""

    asked: float
    ended: float


@dataclass
class _Group:
    """A ring, and its leader's dealings with the server.

    Attributes:
        told: the reduces that were made when the leader last asked to meet.
    """

    ring: Ring
    meetings: list[Meeting]
    told: int = 0
    is_away: bool = False

    def is_to_meet(self) -> bool:
        return len(self.ring.done) - self.told >= BETWEEN

    def is_back(self) -> bool:
        return self.is_away and self.meetings[-1].ended <= self.ring.begin


def meet(rings: Sequence[Ring], *, exchange_seconds: float, until: float) -> list[list[Meeting]]:
    """Let the groups reduce until then, and meet now and then; the meetings of each group.

    1. A leader that has `BETWEEN` reduces behind it since it last asked pushes what its group did and pulls what
       the others did. Its group goes on reducing; but before it has as many more it waits for its leader.
    2. The server takes one leader after the other, in the order in which they ask, `exchange_seconds` each.
    3. What a leader brings goes round its ring before the next reduce; that takes as long as a reduce.
    """
    groups = [_Group(ring, []) for ring in rings]
    free = 0.0
    while running := [group for group in groups if group.ring.is_under_way(until)]:
        group = min(running, key=lambda group: group.ring.begin)
        ring = group.ring
        if group.is_back():
            group.is_away = False
            ring.pass_on()
        elif not group.is_to_meet():
            ring.reduce()
        elif group.is_away:
            ring.begin = group.meetings[-1].ended
        else:
            free = max(free, ring.begin) + exchange_seconds
            group.meetings.append(Meeting(ring.begin, free))
            group.told, group.is_away = len(ring.done), True
    return [group.meetings for group in groups]
