"""Was the order kept? Hand-offs that the hook logged against the plan, each channel by its discipline's rule."""

import heapq
import math
import statistics
from bisect import bisect_left, insort
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tfwave.errors import EnforcerError, excerpt
from tfwave.graph.names import Channel
from tfwave.plan.discipline import Discipline
from tfwave.proto import control_pb2


class HandOff(NamedTuple):
    """One tensor given to gRPC: its step and channel, its rank in the plan, and why it went then.

    Times are in nanoseconds of the sender's monotonic clock; `ready_nanos`, since when it could have left, is
    known of priority channels.
    """

    step: int
    channel: str
    rank: int
    reason: str
    discipline: Discipline = Discipline.COUNTER
    time_nanos: int = 0
    ready_nanos: int = 0


@dataclass(frozen=True)
class ChannelConformance:
    """Figures of one channel; `violations` are hand-offs that broke its discipline's rule.

    By a counter, all of a step that left after a higher rank; by priority, all that left while a lower rank, of any
    step, was ready and waited. A step without one is exact.
    """

    channel: str
    discipline: Discipline
    hand_offs: int
    violations: int
    steps: int
    exact_steps: int

    @property
    def exact_share(self) -> float:
        """The share of its steps that are exact."""
        return self.exact_steps / self.steps


@dataclass(frozen=True)
class Conformance:
    """Figures over the steps of a run, one step being one step id on one channel.

    Inversions are pairs of a step that went in the wrong order, where a counter orders them; `inversion_share` is
    the median over such steps of the inversions, as a share of all pairs (Kendall): 0 is the plan's order, about
    0.5 a random one, 1 its reverse. `nan` where no such step has a pair.
    """

    steps: int
    exact_steps: int
    inversions: int
    inversion_share: float
    hand_offs: int
    late: int
    released: int
    channels: tuple[ChannelConformance, ...]

    @property
    def exact(self) -> bool:
        """Whether each step kept to the rule of its channel."""
        return self.steps > 0 and self.exact_steps == self.steps

    @property
    def share_in_words(self) -> str:
        """The share of inversions, if there is one."""
        return "-" if math.isnan(self.inversion_share) else f"{self.inversion_share:.1%}"


def read_hand_offs(answer: control_pb2.HandOffs, name: Callable[[str, Channel], str]) -> list[HandOff]:
    """The hand-offs of a log; `name` makes a channel's from the function whose plan orders it and the devices.

    Raises:
        EnforcerError: the log speaks of a channel, discipline or reason that there is not.
    """
    channels = [
        (
            name(c.function, Channel(c.source_device, c.destination_device)),
            _discipline(c.discipline),
        )
        for c in answer.channels
    ]
    reasons = {number: reason for reason, number in control_pb2.Reason.items()}
    for h in answer.hand_offs:
        if not 0 <= h.channel < len(channels):
            raise _malformed(f"channel {h.channel} of {len(channels)}")
        if h.reason not in reasons:
            raise _malformed(f"the reason {h.reason}")
    return [
        HandOff(h.step, channel, h.rank, reasons[h.reason], discipline, h.time_nanos, h.ready_nanos)
        for h in answer.hand_offs
        for channel, discipline in [channels[h.channel]]
    ]


def _discipline(text: str) -> Discipline:
    try:
        return Discipline(text or Discipline.COUNTER)
    except ValueError as err:
        raise _malformed(f"the discipline {excerpt(text)!r}") from err


def _malformed(what: str) -> EnforcerError:
    return EnforcerError(f"a server's log of hand-offs speaks of {what}: run the same tfwave on all machines")


def conformance(hand_offs: Iterable[HandOff]) -> Conformance:
    """Judge hand-offs by the rule of their channel: see `ChannelConformance`."""
    channels = by_channel(hand_offs)
    judged = [_judge(name, of_channel) for name, of_channel in channels.items()]
    reasons = Counter(hand_off.reason for of_channel in channels.values() for hand_off in of_channel)
    counted = [ranks for of_channel in channels.values() for ranks in _counted_ranks(of_channel)]
    counts = [inversions(ranks) for ranks in counted]
    shares = [
        n / math.comb(len(ranks), 2) for n, ranks in zip(counts, counted, strict=True) if len(ranks) > 1
    ]
    return Conformance(
        steps=sum(c.steps for c in judged),
        exact_steps=sum(c.exact_steps for c in judged),
        inversions=sum(counts),
        inversion_share=statistics.median(shares) if shares else math.nan,
        hand_offs=sum(c.hand_offs for c in judged),
        late=reasons["LATE"],
        released=reasons["RELEASED"],
        channels=tuple(judged),
    )


def by_channel(hand_offs: Iterable[HandOff]) -> dict[str, list[HandOff]]:
    """In the order in which they were handed off; channels by name."""
    channels: dict[str, list[HandOff]] = defaultdict(list)
    for hand_off in hand_offs:
        channels[hand_off.channel].append(hand_off)
    return dict(sorted(channels.items()))


def inversions(ranks: Sequence[int]) -> int:
    """Pairs in which the later rank came first (Kendall's distance to sorted order)."""
    seen: list[int] = []
    count = 0
    for rank in reversed(ranks):
        count += bisect_left(seen, rank)
        insort(seen, rank)
    return count


def out_of_turn(hand_offs: Sequence[HandOff]) -> list[HandOff]:
    """Those of one channel that broke its discipline's rule: see `ChannelConformance`."""
    by_priority = hand_offs[0].discipline is Discipline.PRIORITY
    return overtakers(hand_offs) if by_priority else _overtaken(hand_offs)


def overtakers(hand_offs: Iterable[HandOff]) -> list[HandOff]:
    """Of a priority channel, those that left in turn while a lower rank waited: ready before, and gone later.

    What an enforcer let go out of turn is not judged, but it had waited as well.
    """
    queued = [h for h in hand_offs if h.reason in {"ORDERED", "RELEASED"}]
    coming = deque(sorted(queued, key=lambda h: h.ready_nanos))
    waiting: list[tuple[int, int]] = []  # rank, and when it leaves
    found: list[HandOff] = []
    for leaving in sorted(queued, key=lambda h: h.time_nanos):
        while coming and coming[0].ready_nanos < leaving.time_nanos:
            came = coming.popleft()
            heapq.heappush(waiting, (came.rank, came.time_nanos))
        while waiting and waiting[0][1] <= leaving.time_nanos:
            heapq.heappop(waiting)
        if waiting and waiting[0][0] < leaving.rank and leaving.reason == "ORDERED":
            found.append(leaving)
    return found


def _judge(channel: str, hand_offs: Sequence[HandOff]) -> ChannelConformance:
    broken = out_of_turn(hand_offs)
    steps = {h.step for h in hand_offs}
    return ChannelConformance(
        channel=channel,
        discipline=hand_offs[0].discipline,
        hand_offs=len(hand_offs),
        violations=len(broken),
        steps=len(steps),
        exact_steps=len(steps - {h.step for h in broken}),
    )


def _overtaken(hand_offs: Iterable[HandOff]) -> list[HandOff]:
    highest: dict[int, int] = {}
    found: list[HandOff] = []
    for hand_off in hand_offs:
        if hand_off.rank < highest.get(hand_off.step, hand_off.rank):
            found.append(hand_off)
        else:
            highest[hand_off.step] = hand_off.rank
    return found


def _counted_ranks(hand_offs: Iterable[HandOff]) -> list[list[int]]:
    """The ranks of each step in the order of hand-off, where a counter orders them."""
    ranks: dict[int, list[int]] = defaultdict(list)
    for hand_off in hand_offs:
        if hand_off.discipline is Discipline.COUNTER:
            ranks[hand_off.step].append(hand_off.rank)
    return list(ranks.values())
