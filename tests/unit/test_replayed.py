"""What a log of hand-offs may hold, and what it may not."""

import pytest

from tests.replayed import forbidden
from tfwave.plan.discipline import Discipline
from tfwave.report.conformance import HandOff


def log(*entries: tuple[int, str]) -> list[HandOff]:
    return [HandOff(1, "a > b", rank, reason) for rank, reason in entries]


def by_urgency(*entries: tuple[int, int, int]) -> list[HandOff]:
    """Rank, when it left, since when it could."""
    return [
        HandOff(step, "a > b", rank, "ORDERED", Discipline.PRIORITY, left, ready)
        for step, (rank, left, ready) in enumerate(entries)
    ]


@pytest.mark.parametrize(
    "entries",
    [
        [(0, "ORDERED"), (1, "ORDERED"), (3, "ORDERED")],
        [(0, "ORDERED"), (2, "RELEASED"), (1, "RELEASED"), (3, "LATE")],
        [(2, "OFF"), (0, "OFF")],
    ],
)
def test_turns_releases_and_what_comes_late_are_allowed(entries: list[tuple[int, str]]) -> None:
    assert forbidden(log(*entries)) == []


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ([(1, "ORDERED"), (0, "ORDERED")], "rank 0 of step 1 on a > b had its turn behind rank 1"),
        ([(0, "RELEASED"), (1, "ORDERED")], "rank 1 of step 1 on a > b had its turn behind a release"),
        ([(0, "ORDERED"), (0, "LATE")], "rank 0 of step 1 on a > b left before"),
    ],
)
def test_what_no_counter_writes_is_told(entries: list[tuple[int, str]], why: str) -> None:
    assert forbidden(log(*entries)) == [why]


def test_steps_and_channels_have_counters_of_their_own() -> None:
    one, other = log((1, "ORDERED"))[0], log((0, "ORDERED"))[0]
    assert forbidden([one, other._replace(step=2)]) == []
    assert forbidden([one, other._replace(channel="a > c")]) == []


def test_the_most_urgent_that_is_ready_leaves_first() -> None:
    assert forbidden(by_urgency((5, 10, 1), (2, 20, 15), (7, 30, 2))) == []
    assert forbidden(by_urgency((5, 10, 1), (2, 20, 9))) == [
        "rank 5 of step 0 on a > b left before rank 2 of step 1 on a > b, which was ready"
    ]
