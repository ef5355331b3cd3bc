"""Judging hand-offs while a training runs."""

import math
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tfwave.distribute.servers import channel_of, function_of
from tfwave.plan.plan import Plan
from tfwave.report.conformance import HandOff, conformance
from tfwave.report.figures import median_of

_Step = tuple[int, str]
_MOST_STEPS = 10_000
"""So many are kept, if nobody takes them."""
_QUIET_SECONDS = 1.0
"""A step has ended when nothing was handed off for so long."""


@dataclass(frozen=True)
class Kept:
    """How steps kept their order, each channel of a step by itself.

    `steps` counts those that the plan held to their end, `exact_steps` those of them that kept it, `hand_offs` what
    they handed off; `inversion_share` is the median of theirs, as `Conformance` has it. `released` counts the other
    steps: a deadline, a new plan, a step's abort or the off switch let them go. `planned` is how many transfers the
    plan names for `steps`: the runtime may send some under names that it does not know.
    """

    steps: int
    exact_steps: int
    inversion_share: float
    hand_offs: int
    planned: int
    released: int


@dataclass
class _Open:
    hand_offs: list[HandOff] = field(default_factory=list[HandOff])
    last: float = 0.0


class _Closed(NamedTuple):
    """What is kept of a step that has ended: no hand-off, of which there may be millions."""

    is_held: bool
    is_exact: bool
    inversion_share: float
    hand_offs: int
    planned: int


class Judge:
    """Collects hand-offs as they are read; a step is judged once all or nothing more of it came.

    All are as many as its plan orders. Where Grappler left fewer, it takes a second without one. Not thread-safe.
    """

    def __init__(self) -> None:
        self._open: dict[_Step, _Open] = {}
        self._closed: deque[_Closed] = deque(maxlen=_MOST_STEPS)
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
        held = [step for step in closed if step.is_held]
        return Kept(
            steps=len(held),
            exact_steps=sum(step.is_exact for step in held),
            inversion_share=median_of([s.inversion_share for s in held if not math.isnan(s.inversion_share)]),
            hand_offs=sum(step.hand_offs for step in held),
            planned=sum(step.planned for step in held),
            released=len(closed) - len(held),
        )

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
        judged = conformance(hand_offs)
        is_held = _is_held(hand_offs)
        is_exact = is_held and judged.exact
        planned = self._sizes.get(key[1], len(hand_offs))
        self._closed.append(_Closed(is_held, is_exact, judged.inversion_share, len(hand_offs), planned))
        function = function_of(key[1])
        self._steps[function] += 1
        self._exact[function] += is_exact


def _is_held(hand_offs: Iterable[HandOff]) -> bool:
    return all(hand_off.reason == "ORDERED" for hand_off in hand_offs)
