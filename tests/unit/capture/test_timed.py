"""What is told of the steps before the traced ones."""

import pytest

from tfwave.capture.timed import StepTime, untraced_core_seconds


@pytest.mark.parametrize(
    ("worked", "told"),
    [
        ([], None),
        ([None, None], None),
        ([4.0], 4.0),
        ([4.0, 0.5], 0.5),
        ([4.0, 0.5, 0.6, 0.9], 0.6),
        ([4.0, None, 0.5], 0.5),
    ],
    ids=str,
)
def test_the_first_of_several_steps_does_not_count(worked: list[float | None], told: float | None) -> None:
    assert untraced_core_seconds([StepTime(1.0, seconds) for seconds in worked]) == told
