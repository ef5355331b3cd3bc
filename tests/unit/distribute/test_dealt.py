"""Batches that the chief deals out, of datasets that are lists."""

from itertools import chain, repeat

import pytest

from tfwave.keras.data import Dealt


def dealt(dealt: Dealt, *per_execution: int) -> list[tuple[int, ...]]:
    """The chunks of an epoch; of so many steps each, the last number again and again."""
    numbers = chain(per_execution, repeat(per_execution[-1]))
    chunks = list(dealt.epoch(lambda: next(numbers)))
    assert all(count == len(chunk) for count, chunk in chunks)
    return [chunk for _, chunk in chunks]


@pytest.mark.parametrize(
    ("per_execution", "chunks"),
    [(1, [(0,), (1,), (2,), (3,), (4,)]), (2, [(0, 1), (2, 3), (4,)]), (9, [(0, 1, 2, 3, 4)])],
)
def test_without_steps_an_epoch_is_the_whole_dataset(
    per_execution: int, chunks: list[tuple[int, ...]]
) -> None:
    source = Dealt(range(5), None)
    assert dealt(source, per_execution) == chunks
    assert dealt(source, per_execution) == chunks


def test_epochs_of_a_number_of_steps_go_on_and_begin_anew_at_the_end() -> None:
    source = Dealt(range(6), 3)
    assert dealt(source, 2) == [(0, 1), (2,)]
    assert dealt(source, 2) == [(3, 4), (5,)]
    assert dealt(source, 2) == [(0, 1), (2,)]


def test_an_epoch_that_ends_early_is_said() -> None:
    source = Dealt(range(5), 3)
    assert dealt(source, 1) == [(0,), (1,), (2,)]
    with pytest.warns(UserWarning, match="ended after 2 of the epoch's 3 batches"):
        assert dealt(source, 1) == [(3,), (4,)]
    assert dealt(source, 1) == [(0,), (1,), (2,)]


def test_a_validation_begins_at_the_start_each_time() -> None:
    source = Dealt(range(6), 4)
    assert dealt(source.from_the_start(), 4) == dealt(source.from_the_start(), 4) == [(0, 1, 2, 3)]


def test_functions_may_grow_within_an_epoch() -> None:
    assert dealt(Dealt(range(9), None), 1, 1, 4) == [(0,), (1,), (2, 3, 4, 5), (6, 7, 8)]
