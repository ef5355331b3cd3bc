"""Which ids of a batch count as clicked."""

from typing import Any

import numpy as np
import pytest

from tfwave.embedding import Dynamic, Score
from tfwave.errors import TfwaveError
from tfwave.runtime.embedding.dynamic import Rows


def kept(ids: Any, clicks: Any) -> list[int]:
    """The two ids that are worth most; a click weighs more than five ids without."""
    rows = Rows(Dynamic(Score(0.5, positive=8.0), np.zeros, positive=lambda batch: batch), 9)
    rows.of(np.array(ids), np.array(clicks))
    rows.residents.evict(2)
    return sorted(rows.residents.ids()[0].tolist())


@pytest.mark.parametrize("clicks", [[0, 1], [[0], [1]], [[0, 0], [1, 1]]])
def test_the_ids_of_a_clicked_sample_are_worth_more(clicks: Any) -> None:
    assert kept([[7, 7], [8, 9]], clicks) == [8, 9]


def test_labels_that_are_a_column_are_those_of_samples_of_one_id() -> None:
    assert kept([7, 7, 8, 9], [[0.0], [0.0], [1.0], [1.0]]) == [8, 9]


@pytest.mark.parametrize("clicks", [[1], [0, 1, 1], [[0, 1], [1, 0]]])
def test_clicks_of_other_samples_are_refused(clicks: Any) -> None:
    with pytest.raises(
        TfwaveError, match=r"Dynamic.positive gives \(.* for ids of shape \(4,\): give one number"
    ):
        kept([7, 7, 8, 9], clicks)
