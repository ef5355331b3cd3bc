"""Judging logged hand-offs."""

import math
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfwave.errors import BundleError
from tfwave.order.bounds import Bounds
from tfwave.report.conformance import HandOff, conformance, inversions
from tfwave.report.figures import step_figures
from tfwave.report.run import load_run, save_run


@given(st.lists(st.integers(0, 20), max_size=12))
def test_inversions_are_the_pairs_in_the_wrong_order(ranks):
    assert inversions(ranks) == sum(a > b for a, b in combinations(ranks, 2))


def log(step: int, ranks: list[int], reason: str = "ORDERED") -> list[HandOff]:
    return [HandOff(step, "a -> b", rank, reason) for rank in ranks]


def test_steps_are_judged_one_by_one_even_when_they_interleave():
    first, second = log(1, [0, 1, 2]), log(2, [2, 1, 0], "LATE")
    woven = [h for pair in zip(first, second, strict=True) for h in pair]
    judged = conformance([*woven, *log(3, [0, 2], "RELEASED")])
    assert (judged.steps, judged.exact_steps, judged.inversions) == (3, 2, 3)
    assert (judged.late, judged.released, judged.hand_offs) == (3, 2, 8)
    assert judged.inversion_share == 0.0
    assert not judged.exact


def test_nothing_logged_is_not_conforming():
    judged = conformance([])
    assert not judged.exact
    assert math.isnan(judged.inversion_share)


def test_figures():
    figures = step_figures([[1.0, 2.0], [2.0, 1.0], [4.0, 4.0]], Bounds(5.0, 1.0))
    assert figures.median_seconds == 2.0
    assert figures.straggler == 0.5
    assert figures.efficiency == 0.75
    assert figures.speedup == 4.0


def test_runs_survive_their_file_and_malformed_ones_are_named(tmp_path):
    run = {"unordered": log(1, [1, 0], "OFF"), "ordered": log(-2, [0, 1])}
    save_run(tmp_path, run)
    assert load_run(tmp_path) == run
    for content in ["", "{}", '{"ordered": [[1]], "unordered": []}', "[]"]:
        (tmp_path / "handoffs.json").write_text(content)
        with pytest.raises(BundleError, match=r"handoffs\.json"):
            load_run(tmp_path)
    with pytest.raises(BundleError, match="is not a run"):
        load_run(tmp_path / "nosuch")
