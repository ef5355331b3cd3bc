"""Planned ranks against hand-offs, step by step."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import comb

from tfwave.graph.names import short_channel
from tfwave.plan.discipline import Discipline
from tfwave.plan.plan import Plan
from tfwave.report.conformance import Conformance, HandOff, by_channel, conformance, inversions, out_of_turn
from tfwave.report.page.facts import Section, Table
from tfwave.report.page.given import ORDERED, Given

MOST_POINTS = 20_000
"""Hand-offs beyond are not drawn: steps with fewer inversions are left out, and the page says so."""


@dataclass(frozen=True)
class _Step:
    """One step on one channel: its ranks in the order of their hand-off, and how it was judged.

    `number` counts the steps of a mode on a channel from 1; `inversions` is None where no counter orders them.
    """

    mode: str
    channel: str
    number: int
    ranks: tuple[int, ...]
    inversions: int | None
    broken: int

    @property
    def share(self) -> float | None:
        """Of all pairs, those in the wrong order; None where there is none to order."""
        pairs = comb(len(self.ranks), 2)
        return None if self.inversions is None or not pairs else self.inversions / pairs


def order_section(given: Given) -> Section | None:
    """None without hand-offs."""
    if given.hand_offs is None or not any(given.hand_offs.values()):
        return None
    steps = [step for mode, log in given.hand_offs.items() for step in _steps(mode, log)]
    judged = {mode: conformance(log) for mode, log in given.hand_offs.items()}
    drawn, left_out = _drawn(steps)
    channels = sorted({step.channel for step in steps})
    chart = {
        "channels": [short_channel(channel) for channel in channels],
        "tensors": [_tensors(given.plan, channel) for channel in channels],
        "steps": [
            {
                "mode": step.mode,
                "channel": channels.index(step.channel),
                "number": step.number,
                "ranks": step.ranks,
                "inversions": step.inversions,
                "broken": step.broken,
            }
            for step in drawn
        ],
    }
    rows = [
        (s.mode, short_channel(s.channel), s.number, len(s.ranks), s.inversions, _share(s), s.broken)
        for s in steps
    ]
    columns = ["mode", "channel", "step", "hand-offs", "inversions", "share of pairs", "out of turn"]
    return Section(
        "order",
        "Planned rank against hand-off",
        f"{said_of(judged[ORDERED])} A point on the diagonal left in its turn.{left_out}",
        chart,
        Table(columns, rows),
        summary_of(judged),
    )


def said_of(ordered: Conformance) -> str:
    """Whether the order was kept, in a sentence."""
    if not ordered.steps:
        return "No step ran under the plan."
    if ordered.exact:
        return f"The planned order was kept in each of {ordered.steps:,} steps, counted by channel."
    broken = ordered.steps - ordered.exact_steps
    return f"The planned order was broken in {broken:,} of {ordered.steps:,} steps, counted by channel."


def _steps(mode: str, log: Iterable[HandOff]) -> list[_Step]:
    """Each step of each channel; by channel, then as they began."""
    return [step for own in by_channel(log).values() for step in _of_channel(mode, own)]


def _of_channel(mode: str, log: Sequence[HandOff]) -> Iterator[_Step]:
    broken = Counter(hand_off.step for hand_off in out_of_turn(log))
    is_counted = log[0].discipline is Discipline.COUNTER
    ranks: dict[int, list[int]] = defaultdict(list)
    for hand_off in log:
        ranks[hand_off.step].append(hand_off.rank)
    for number, (step, own) in enumerate(ranks.items(), 1):
        count = inversions(own) if is_counted else None
        yield _Step(mode, log[0].channel, number, tuple(own), count, broken[step])


def _drawn(steps: list[_Step]) -> tuple[list[_Step], str]:
    """Those with the most inversions first while they fit, in their own order again; at least one."""
    kept: list[int] = []
    points = 0
    by_disorder = sorted(range(len(steps)), key=lambda i: (-(steps[i].inversions or steps[i].broken), i))
    for number in by_disorder:
        points += len(steps[number].ranks)
        if kept and points > MOST_POINTS:
            break
        kept.append(number)
    if len(kept) == len(steps):
        return steps, ""
    said = (
        f" Of {len(steps):,} steps the {len(kept):,} with the most inversions are drawn; the table has all."
    )
    return [steps[i] for i in sorted(kept)], said


def _tensors(plan: Plan | None, channel: str) -> list[str]:
    """The names of a channel's transfers, by rank."""
    orders = plan.orders if plan else ()
    return [t.key.node for order in orders if str(order.channel) == channel for t in order.transfers]


def summary_of(judged: Mapping[str, Conformance]) -> Table:
    """Figures by mode; a step is one step on one channel."""
    return Table(
        ["mode", "steps", "exact", "inversions", "share of pairs", "late", "released"],
        [
            (mode, c.steps, c.exact_steps, c.inversions, c.share_in_words, c.late, c.released)
            for mode, c in judged.items()
        ],
    )


def _share(step: _Step) -> str | None:
    return None if step.share is None else f"{step.share:.1%}"
