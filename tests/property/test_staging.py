"""Counts of rows against the sets that staged calls have, and what holds of every forecast."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.staged import captured, whole
from tfwave.runtime.embedding.rows import EARLY, FIRST, LATE, NEW, REST, Layout, Shard
from tfwave.staging.choice import Forecaster
from tfwave.staging.counts import Counted
from tfwave.staging.forecast import Links

IDS = st.lists(st.integers(0, 9), max_size=8)
BATCHES = st.lists(st.tuples(IDS, IDS), min_size=2, max_size=6)
SECONDS = st.floats(1e-3, 1.0)


def known_of(batches: Any, seconds: tuple[float, float] = (1.0, 0.5), dense: int = 0) -> Any:
    """Of two tables on one server; each batch has an id at least."""
    named = [{"a": [0, *a], "b": b} for a, b in batches]
    return named, captured([whole("a", 10, 4), whole("b", 10, 4)], named, seconds, (dense,))


@settings(deadline=None)
@given(BATCHES, st.integers(0, 600))
def test_a_call_moves_the_rows_that_are_counted(batches: Any, hot: int) -> None:
    named, capture = known_of(batches)
    layout = Layout([Shard(name, "server", 10, 4, slots=1) for name in "ab"])
    numbers = [layout.numbers({name: np.array(ids, int) for name, ids in own.items()}) for own in named]
    loads = Counted(capture).loads(range(len(named)), hot)
    for own, sets in zip(loads, layout.row_sets(numbers, hot), strict=True):
        counts = sets.wanted[0][: 5 * 2].reshape(5, 2).sum(1)
        found = {EARLY: own.early, LATE: own.late, FIRST: own.first, REST: own.rest, NEW: own.new}
        assert {which: load.rows for which, load in found.items()} == dict(enumerate(counts))
        assert own.new.total == 2 * 16 * own.new.rows
        assert own.early.total == 16 * own.early.rows


@settings(deadline=None)
@given(BATCHES, SECONDS, SECONDS, st.floats(0, 0.5), st.tuples(st.integers(0, 600), st.integers(0, 300)))
def test_no_forecast_is_below_its_floor_and_faster_links_never_take_longer(
    batches: Any, unique: float, wide: float, latency: float, sizes: tuple[int, int]
) -> None:
    hot, dense = sizes
    _, capture = known_of(batches, (unique, unique / 3), dense)
    steps = len(batches)
    slow, fast = (Forecaster(capture, Links(1e3 * wide * times, latency)) for times in (1, 2))
    for old, apart in ((0, True), (0, False), (1, True)):
        way, quick = (f.staged(old, hot, steps, apart=apart) for f in (slow, fast))
        assert way.seconds >= way.floor * (1 - 1e-9)
        assert quick.seconds <= way.seconds * (1 + 1e-9)
    assert slow.staged(0, 0, 1).seconds == pytest.approx(slow.unique())
