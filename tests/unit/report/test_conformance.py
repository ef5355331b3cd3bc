"""Conformance figures against brute force, and reading runs."""

import math
import re
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.conftest import Command
from tfwave.errors import BundleError
from tfwave.plan.discipline import Discipline
from tfwave.proto import control_pb2
from tfwave.report.conformance import HandOff, conformance, inversions, overtakers, read_hand_offs
from tfwave.report.page.given import read_given
from tfwave.report.page.order import order_section
from tfwave.report.run import HAND_OFFS_FILE, load_run, save_run


def sent(step: int, ranks: list[int], *, channel: str = "c", reason: str = "TURN") -> list[HandOff]:
    return [HandOff(step, channel, rank, reason) for rank in ranks]


@settings(max_examples=300, deadline=None, database=None)
@given(st.lists(st.integers(0, 12), max_size=30))
def test_inversions_are_the_pairs_in_the_wrong_order(ranks: list[int]) -> None:
    assert inversions(ranks) == sum(a > b for a, b in combinations(ranks, 2))


def test_steps_and_channels_are_judged_apart() -> None:
    log = sent(1, [0, 2]) + sent(2, [0, 1]) + sent(1, [0, 1], channel="d") + sent(1, [1])
    figures = conformance(log)
    assert (figures.steps, figures.exact_steps, figures.exact) == (3, 2, False)
    assert (figures.inversions, figures.hand_offs) == (1, 7)
    assert figures.inversion_share == 0


def test_the_share_is_the_median_over_steps_with_a_pair() -> None:
    log = sent(1, [2, 1, 0]) + sent(2, [1, 0, 2]) + sent(3, [0, 1, 2]) + sent(4, [0])
    assert conformance(log).inversion_share == pytest.approx(1 / 3)
    assert conformance(sent(1, [3, 2, 1, 0])).inversion_share == 1


def test_gaps_in_the_ranks_do_no_harm() -> None:
    assert conformance(sent(1, [0, 5, 9])).exact


def test_late_and_released_are_counted() -> None:
    log = sent(1, [0]) + sent(1, [2], reason="LATE") + sent(1, [3, 4], reason="RELEASED")
    figures = conformance(log)
    assert (figures.late, figures.released, figures.exact) == (1, 2, True)


LOGS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.integers(0, 5),
        st.sampled_from(["ORDERED", "RELEASED"]),
        st.integers(1, 20),
        st.integers(0, 9),
    ),
    max_size=12,
)


@settings(max_examples=300, deadline=None, database=None)
@given(LOGS)
def test_by_priority_no_less_urgent_one_leaves_before_one_that_waits(
    drawn: list[tuple[int, int, str, int, int]],
) -> None:
    log = [by_priority(step, rank, ready, ready + wait, reason) for step, rank, reason, ready, wait in drawn]
    broken = [
        h
        for h in log
        if h.reason == "ORDERED"
        and any(o.ready_nanos < h.time_nanos < o.time_nanos and o.rank < h.rank for o in log)
    ]
    assert sorted(overtakers(log)) == sorted(broken)
    figures = conformance(log)
    assert [c.violations for c in figures.channels] == [len(broken)] * bool(log)
    assert figures.exact_steps == len({h.step for h in log} - {h.step for h in broken})
    assert (figures.inversions, figures.exact) == (0, bool(log) and not broken)


def by_priority(step: int, rank: int, ready: int, time: int, reason: str = "ORDERED") -> HandOff:
    return HandOff(step, "p", rank, reason, Discipline.PRIORITY, time, ready)


def test_what_was_not_ready_or_never_waited_accuses_none() -> None:
    assert not overtakers([by_priority(1, 5, 1, 4), by_priority(1, 0, 4, 6)])
    assert not overtakers([by_priority(1, 5, 1, 4), by_priority(1, 0, 0, 6, "OFF")])
    assert not overtakers([by_priority(1, 5, 1, 4), by_priority(2, 5, 2, 6)])
    assert overtakers([by_priority(1, 5, 1, 4), by_priority(2, 0, 3, 6)]) == [by_priority(1, 5, 1, 4)]


def test_each_channel_is_judged_by_its_own_rule() -> None:
    counted = sent(1, [2, 0, 1]) + sent(2, [0, 1])
    figures = conformance([by_priority(1, 5, 1, 4), by_priority(2, 0, 3, 6), *counted])
    assert [
        (c.channel, c.discipline, c.hand_offs, c.violations, c.exact_share) for c in figures.channels
    ] == [
        ("c", "counter", 5, 2, 0.5),
        ("p", "priority", 2, 1, 0.5),
    ]
    assert (figures.steps, figures.exact_steps, figures.inversions, figures.hand_offs) == (4, 2, 2, 7)


def test_a_log_is_read_with_its_disciplines() -> None:
    log = control_pb2.HandOffs()
    for discipline in ("priority", "counter", ""):
        log.channels.add(source_device="a", destination_device="b", function="f", discipline=discipline)
    for channel in (2, 0):
        log.hand_offs.add(time_nanos=9, ready_nanos=4, step=1, channel=channel, rank=3, reason="LATE")
    assert read_hand_offs(log, lambda function, channel: f"{function}: {channel}") == [
        HandOff(1, "f: a -> b", 3, "LATE", Discipline.COUNTER, 9, 4),
        HandOff(1, "f: a -> b", 3, "LATE", Discipline.PRIORITY, 9, 4),
    ]


def test_nothing_is_not_exact() -> None:
    figures = conformance([])
    assert (figures.steps, figures.exact) == (0, False)
    assert math.isnan(figures.inversion_share)


def test_where_nothing_ran_under_the_plan_that_is_said(tfwave: Command, tmp_path: Path) -> None:
    save_run(tmp_path, {"unordered": sent(1, [1, 0]), "ordered": []})
    ran = tfwave("conformance", tmp_path)
    assert (ran.code, ran.out.splitlines()[-1]) == (1, "No step ran under the plan.")
    found = order_section(read_given([tmp_path]))
    assert found is not None
    assert found.summary is not None
    assert [row[4] for row in found.summary.rows] == ["100.0%", "-"]
    assert re.search(r"ordered +│ +0 │ +0 │ +0 │ +- │", ran.out)
    assert "nan" not in ran.out
    save_run(tmp_path, {"unordered": [], "ordered": sent(1, [1, 0])})
    ran = tfwave("conformance", tmp_path)
    assert (ran.code, "The planned order was broken in 1 of 1 steps" in ran.out) == (1, True)


def test_a_run_reads_back(tmp_path: Path) -> None:
    run = {
        "unordered": sent(1, [1, 0]),
        "ordered": [*sent(2, [0, 1], reason="LATE"), by_priority(1, 2, 3, 4)],
    }
    save_run(tmp_path, run)
    assert load_run(tmp_path) == run


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "malformed: content"),
        ("[]", "malformed: content"),
        ('{"ordered": [[1, "c", 0]], "unordered": []}', r"malformed: ordered\.0"),
        ('{"ordered": [[1, "c", "x", "TURN"]], "unordered": []}', r"malformed: ordered\.0\.2"),
        ('{"ordered": [[1, "c", 0, "OFF", "fifo"]], "unordered": []}', r"malformed: ordered\.0\.4"),
        ('{"ordered": []}', "malformed: it must hold the modes unordered and ordered"),
        ('{"ordered": [], "unordered": [], "more": []}', "must hold the modes"),
    ],
)
def test_a_malformed_run_is_named(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / HAND_OFFS_FILE).write_text(text)
    with pytest.raises(BundleError, match=f"{HAND_OFFS_FILE}' is .*{says}"):
        load_run(tmp_path)


def test_what_is_no_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"is not a run: handoffs\.json: No such file"):
        load_run(tmp_path / "gone")
