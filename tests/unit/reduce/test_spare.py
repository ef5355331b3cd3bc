"""Memory of sums that is used again: never before its last view is gone."""

from typing import Any

import numpy as np
import pytest

from tfwave.reduce.spare import MOST_SPARE, Spare

LIKE = np.arange(1000, dtype=np.float32)


def place(array: Any) -> int:
    return array.ctypes.data


def test_memory_comes_back_with_the_last_view_and_not_before() -> None:
    spare = Spare()
    one = spare.flat(LIKE.size, LIKE.dtype)
    first = place(one)
    bytes_of_a_part = memoryview(one[10:20].view(np.uint8))
    one.flags.writeable = False
    del one
    other = spare.flat(LIKE.size, LIKE.dtype)
    assert place(other) != first
    del bytes_of_a_part
    again = spare.flat(LIKE.size, LIKE.dtype)
    assert place(again) == first
    assert again.flags.writeable
    assert again.dtype == LIKE.dtype
    assert again.shape == LIKE.shape


def test_not_all_that_was_kept_for_long_stays() -> None:
    spare = Spare()
    kept = [spare.flat(LIKE.size, LIKE.dtype) for _ in range(MOST_SPARE + 3)]
    places = [place(one) for one in kept]
    kept.reverse()
    while kept:
        kept.pop()
    assert len(spare._memory) == MOST_SPARE
    assert {place(spare.flat(LIKE.size, LIKE.dtype)) for _ in range(MOST_SPARE)} <= set(places)


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
def test_other_types_and_nothing(dtype: Any) -> None:
    spare = Spare()
    for values in (np.ones(7, dtype), np.ones(7, dtype)):
        like = spare.flat(values.size, values.dtype)
        like[:] = values
        assert like.tobytes() == values.tobytes()
    assert Spare().flat(0, dtype).shape == (0,)
