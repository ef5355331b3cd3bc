"""Logs of hand-offs, held against what the models of tests/unit/native/protocols allow."""

from collections.abc import Iterable, Sequence
from itertools import groupby

from tfwave.plan.discipline import Discipline
from tfwave.report.conformance import HandOff

ORDERED, RELEASED = "ORDERED", "RELEASED"


def forbidden(hand_offs: Iterable[HandOff]) -> list[str]:
    """What of a log, in its order, no run of the models could have written; for people to read."""
    by_place = sorted(hand_offs, key=lambda h: (h.channel, h.discipline))  # stable: in order within
    found: list[str] = []
    for (_, discipline), of_channel in groupby(by_place, key=lambda h: (h.channel, h.discipline)):
        if discipline == Discipline.COUNTER:
            by_step = sorted(of_channel, key=lambda h: h.step)
            for _, of_step in groupby(by_step, key=lambda h: h.step):
                found += _forbidden_by_counter(list(of_step))
        else:
            found += _forbidden_by_window(list(of_channel))
    return found


def _forbidden_by_counter(log: Sequence[HandOff]) -> list[str]:
    """One channel in one step: each rank leaves once; turns ascend; behind a release nothing has a turn."""
    found = _twice(log)
    released, last = False, -1
    for h in log:
        if h.reason == ORDERED and released:
            found.append(f"{_place(h)} had its turn behind a release")
        if h.reason == ORDERED and h.rank <= last:
            found.append(f"{_place(h)} had its turn behind rank {last}")
        last = max(last, h.rank) if h.reason == ORDERED else last
        released |= h.reason == RELEASED
    return found


def _forbidden_by_window(log: Sequence[HandOff]) -> list[str]:
    """One channel, all steps: nothing leaves by urgency while something more urgent that was ready stays."""
    by_step = sorted(log, key=lambda h: h.step)
    found = [text for _, of_step in groupby(by_step, key=lambda h: h.step) for text in _twice(list(of_step))]
    for i, h in enumerate(log):
        if h.reason != ORDERED:
            continue
        stayed = [
            g for g in log[i + 1 :] if g.rank < h.rank and g.ready_nanos and g.ready_nanos < h.time_nanos
        ]
        found += [f"{_place(h)} left before {_place(g)}, which was ready" for g in stayed]
    return found


def _twice(log: Sequence[HandOff]) -> list[str]:
    ranks = [h.rank for h in log]
    return [f"{_place(h)} left before" for i, h in enumerate(log) if h.rank in ranks[:i]]


def _place(h: HandOff) -> str:
    return f"rank {h.rank} of step {h.step} on {h.channel}"
