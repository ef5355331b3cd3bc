"""The bench `stream.py`: what it says of its ways, which trainings there are, and that its table shows it."""

from typing import Any

import pytest

from tests.unit.tools.shown import assert_shown
from tools.bench.memory.stream import against, binding_limit
from tools.bench.memory.stream_jobs import RATES, SEARCHED, WAYS, trainings


def trial(seconds: float, *ends: float, losses: str = "0x1p+0") -> dict[str, Any]:
    names = [f"training {number}" for number in range(len(ends))]
    return {
        "seconds": seconds,
        "ends": dict(zip(names, ends, strict=True)),
        "losses": {name: ["0x1p+1", losses] for name in names},
        "peak": 100,
        "alone": names[:1],
        "waited": 0,
    }


def test_the_figures_are_of_the_last_and_of_the_mean_end_and_gains_of_pairs() -> None:
    trials = {
        "in turn": [trial(12.0, 4.0, 12.0), trial(24.0, 8.0, 24.0)],
        "offload": [trial(6.0, 5.0, 6.0), trial(6.0, 2.0, 6.0)],
    }
    found = against(trials)
    assert found["offload"]["makespan_seconds"] == 6.0
    assert found["offload"]["mean_completion_seconds"] == (5.5 + 4.0) / 2
    assert found["offload"]["makespan_gain"] == (2 + 4) / 2
    assert found["offload"]["completion_gain"] == (8 / 5.5 + 16 / 4) / 2
    assert found["in turn"]["makespan_gain"] == 1
    assert "losses" not in str(found)


@pytest.mark.parametrize("way", ["offload", "in turn"])
def test_other_losses_than_alone_are_no_result(way: str) -> None:
    trials = {"in turn": [trial(12.0, 4.0)], "offload": [trial(6.0, 4.0)]}
    against(trials)
    trials[way].append(trial(6.0, 4.0, losses="0x1.8p+0"))
    with pytest.raises(SystemExit, match=f"'training 0' has other losses in the way '{way}'"):
        against(trials)


def test_a_training_that_is_missing_is_no_result() -> None:
    with pytest.raises(SystemExit, match="'training 1' has other losses"):
        against({"in turn": [trial(12.0, 4.0, 6.0)], "offload": [trial(6.0, 4.0)]})


def test_the_search_is_twelve_trainings_of_each_model_and_rate() -> None:
    found = trainings(100)
    assert found == trainings(100)
    assert {(each.model, each.rate) for each in found} == {(m, r) for m in SEARCHED for r in RATES}
    assert len({each.name for each in found}) == len(found) == 12
    assert sorted(each.steps for each in found) == [25] * 4 + [50] * 4 + [100] * 4
    assert [each.steps for each in found] != sorted(each.steps for each in found)
    assert min(each.steps for each in trainings(1)) == 1


def test_the_limit_has_room_for_the_largest_alone_and_not_for_two() -> None:
    held = {"small": 100, "large": 400}
    assert binding_limit(held, beside=2) == 600
    assert binding_limit(held, beside=3) == 800


def test_its_table_shows_each_way() -> None:
    trials = {way: [trial(6.0, 4.0)] for way in WAYS}
    page = assert_shown("stream", {"limit_bytes": 640 << 20, "ways": against(trials)})
    assert "| 640 MiB | colocate | 6.0 s | 4.0 s | 1.000 | 1.000 |" in page
