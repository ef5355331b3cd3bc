"""Which rows a call's batches ask for, against sets of plain Python."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tfwave.errors import TfwaveError
from tfwave.runtime.embedding.rows import EARLY, FIRST, LATE, REST, SETS, Layout, RowSets, Shard

SHARDS = (
    Shard("users", "ps1", 5, 4),
    Shard("users", "ps0", 3, 4),
    Shard("items", "ps0", 6, 2),
    Shard("words", "ps0", 4, 4),
)
ROWS = {"users": 8, "items": 6, "words": 4}
Ids = dict[str, Any]


def batches_of(seed: int, count: int) -> list[Ids]:
    random = np.random.default_rng(seed)
    sizes = random.integers(0, 7, (count, 3))
    return [
        {
            table: random.integers(0, ROWS[table], (size, 2) if table == "users" else (size,))
            for table, size in zip(ROWS, own, strict=True)
        }
        for own in sizes
    ]


def told(layout: Layout, sets: RowSets) -> dict[int, dict[int, list[tuple[int, int]]]]:
    """By set and width what the servers are asked for, in the order in which it comes: place of the shard, row."""
    found: dict[int, dict[int, list[tuple[int, int]]]] = {
        k: {width: [] for width in layout.widths} for k in range(SETS)
    }
    for server, wanted in zip(layout.servers, sets.wanted, strict=True):
        places = layout.places(server)
        counts = wanted[: SETS * len(places)].reshape(SETS, len(places))
        left = iter(wanted[SETS * len(places) :].tolist())
        for k in range(SETS):
            for place, count in zip(places, counts[k], strict=True):
                rows = [(place, next(left)) for _ in range(count)]
                found[k][layout.shards[place].width] += rows
        assert not list(left)
    return found


def shard_and_row(table: str, number: int) -> tuple[Shard, int]:
    for shard in (shard for shard in SHARDS if shard.table == table):
        if number < shard.rows:
            return shard, number
        number -= shard.rows
    raise AssertionError(number)


def needed(batch: Ids) -> set[tuple[Shard, int]]:
    return {shard_and_row(table, int(number)) for table, ids in batch.items() for number in ids.ravel()}


def named(layout: Layout, rows: Sequence[tuple[int, int]]) -> set[tuple[Shard, int]]:
    assert len(set(rows)) == len(rows), "a row comes twice"
    return {(layout.shards[place], row) for place, row in rows}


@pytest.mark.parametrize("seed", range(20))
def test_each_set_has_the_rows_that_it_is_for(seed: int) -> None:
    batches = batches_of(seed, 1 + seed % 4)
    layout = Layout(SHARDS)
    found = layout.row_sets([layout.numbers(batch) for batch in batches])
    none = set[tuple[Shard, int]]()
    rows = [none, none, *(needed(batch) for batch in batches), none]
    for k, sets in enumerate(found):
        first, second, own, behind = rows[k : k + 4]
        before = first | second
        asked = told(layout, sets)
        expected = {EARLY: own - before, LATE: own & before, FIRST: own & behind, REST: own - behind}
        for kind, those in expected.items():
            assert named(layout, [row for some in asked[kind].values() for row in some]) == those


@pytest.mark.parametrize("seed", range(20))
def test_places_and_picks_point_at_the_rows(seed: int) -> None:
    batches = batches_of(seed, 3)
    layout = Layout(SHARDS)
    for batch, sets in zip(batches, layout.row_sets([layout.numbers(b) for b in batches]), strict=True):
        asked = told(layout, sets)
        for column, width in enumerate(layout.widths):
            rows = asked[EARLY][width] + asked[LATE][width]
            assert [rows[k] for k in sets.picks[column]] == asked[FIRST][width] + asked[REST][width]
        for table, ids in batch.items():
            width = layout.width_of(table)
            rows = asked[EARLY][width] + asked[LATE][width]
            assert sets.positions[table].shape == ids.shape
            for number, position in zip(ids.ravel(), sets.positions[table].ravel(), strict=True):
                place, row = rows[position]
                assert (layout.shards[place], row) == shard_and_row(table, int(number))


def test_all_that_is_sent_is_int32() -> None:
    layout = Layout(SHARDS)
    for batches in (batches_of(1, 2), [{table: np.zeros(0, np.int64) for table in ROWS}]):
        for sets in layout.row_sets([layout.numbers(batch) for batch in batches]):
            for rows in (*sets.positions.values(), *sets.wanted, *sets.picks):
                assert rows.dtype == np.int32


@pytest.mark.parametrize(("table", "wrong"), [("users", 8), ("users", -1), ("words", 4)])
def test_an_id_without_a_row_is_named(table: str, wrong: int) -> None:
    layout = Layout(SHARDS)
    ids = {name: np.array([0, wrong if name == table else 1]) for name in ROWS}
    with pytest.raises(
        TfwaveError, match=rf"'{table}' has rows 0 to {ROWS[table] - 1}, and a batch asks for {wrong}:"
    ):
        layout.numbers(ids)
