"""Judging hand-offs while a training runs."""

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tfwave.distribute.servers import channel_of, function_of
from tfwave.plan.plan import Plan
from tfwave.report.conformance import Conformance, HandOff, conformance

_Step = tuple[int, str]
_MOST_STEPS = 10_000
"""So many are kept, if nobody takes them."""
_MOST_HAND_OFFS = 1_000_000
"""Those that are kept have no more of these together, some 200 MB."""
_QUIET_SECONDS = 1.0
"""A step has ended when nothing was handed off for so long."""


@dataclass(frozen=True)
class Kept:
    """How steps kept their order, each channel of a step by itself.

    `conforming` judges those that the plan held to their end; `released` counts the others: a deadline, a new plan,
    a step's abort or the off switch let them go. `planned` is how many transfers the plan names for those that
    `conforming` judges: the runtime may send some under names that it does not know.
    """

    conforming: Conformance
    released: int
    planned: int


@dataclass
class _Open:
    hand_offs: list[HandOff] = field(default_factory=list[HandOff])
    last: float = 0.0


class _Closed(NamedTuple):
    hand_offs: list[HandOff]
    planned: int


class Judge:
    """Collects hand-offs as they are read; a step is judged once all or nothing more of it came.

    All are as many as its plan orders. Where Grappler left fewer, it takes a second without one. Not thread-safe.
    """

    def __init__(self) -> None:
        self._open: dict[_Step, _Open] = {}
        self._closed: deque[_Closed] = deque()
        self._hand_offs = 0
        self._exact: Counter[str] = Counter()
        self._steps: Counter[str] = Counter()
        self._sizes: dict[str, int] = {}

    def expect(self, plans: Mapping[str, Plan]) -> None:
        """Know how much of each step will come, from the plans in force by function."""
        self._sizes = {
            channel_of(name, o.channel): len(o.transfers) for name, plan in plans.items() for o in plan.orders
        }

    def add(self, hand_offs: Iterable[HandOff], now: float) -> None:
        """Take in what was handed off since the last call; `now` is in seconds of any clock."""
        for hand_off in hand_offs:
            step = self._open.setdefault((hand_off.step, hand_off.channel), _Open())
            step.hand_offs.append(hand_off)
            step.last = now
        for key in [key for key, step in self._open.items() if self._has_ended(key, step, now)]:
            self._close(key)

    def take(self) -> Kept:
        """Judge the steps that have ended since the last call."""
        closed = list(self._closed)
        self._closed.clear()
        self._hand_offs = 0
        held = [step for step in closed if _is_held(step.hand_offs)]
        judged = conformance(h for step in held for h in step.hand_offs)
        return Kept(judged, len(closed) - len(held), sum(step.planned for step in held))

    def steps(self, function: str) -> int:
        """How many steps of a function have ended so far."""
        return self._steps[function]

    def exact_share(self, function: str) -> float:
        """Of these, the share that kept the order; 0 before the first."""
        return self._exact[function] / max(1, self._steps[function])

    def _has_ended(self, key: _Step, step: "_Open", now: float) -> bool:
        return len(step.hand_offs) == self._sizes.get(key[1]) or now - step.last >= _QUIET_SECONDS

    def _close(self, key: _Step) -> None:
        hand_offs = self._open.pop(key).hand_offs
        self._closed.append(_Closed(hand_offs, self._sizes.get(key[1], len(hand_offs))))
        self._hand_offs += len(hand_offs)
        while len(self._closed) > _MOST_STEPS or self._hand_offs > _MOST_HAND_OFFS:
            self._hand_offs -= len(self._closed.popleft().hand_offs)
        function = function_of(key[1])
        self._steps[function] += 1
        self._exact[function] += _is_held(hand_offs) and conformance(hand_offs).exact


def _is_held(hand_offs: Iterable[HandOff]) -> bool:
    return all(hand_off.reason == "ORDERED" for hand_off in hand_offs)
