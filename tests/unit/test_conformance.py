"""Conformance figures against brute force, and reading runs."""

import math
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfwave.errors import BundleError
from tfwave.report.conformance import HandOff, conformance, inversions
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


def test_nothing_is_not_exact() -> None:
    figures = conformance([])
    assert (figures.steps, figures.exact) == (0, False)
    assert math.isnan(figures.inversion_share)


def test_a_run_reads_back(tmp_path: Path) -> None:
    run = {"unordered": sent(1, [1, 0]), "ordered": sent(2, [0, 1], reason="LATE")}
    save_run(tmp_path, run)
    assert load_run(tmp_path) == run


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "malformed: content"),
        ("[]", "malformed: content"),
        ('{"ordered": [[1, "c", 0]], "unordered": []}', r"malformed: ordered\.0"),
        ('{"ordered": [[1, "c", "x", "TURN"]], "unordered": []}', r"malformed: ordered\.0\.2"),
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
