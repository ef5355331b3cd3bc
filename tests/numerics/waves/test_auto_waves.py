"""An offset that is chosen for a limited pool keeps to it, and trains as that offset in numbers does."""

import json
import re
from typing import Any

import pytest
import tensorflow as tf

import tfwave
from tests.numerics.processes import said_in_pool
from tfwave.errors import EnforcerError
from tfwave.keras import TickTockCallback
from tfwave.sizes import in_words

pytestmark = pytest.mark.tensorflow

CALLS, BATCHES, EPOCHS = 3, 7, 2
WAYS = ("fit", "loop")
NOT_ONE, WAYS_OUT = "not even one step fits", "take a smaller batch, or raise the limit"


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return said_in_pool(48, "tests.numerics.waves.auto_waves")


@pytest.mark.parametrize("way", WAYS)
def test_waves_begin_as_early_as_they_fit(found: dict[str, Any], way: str) -> None:
    """At an offset of 0 they do not."""
    chosen = found[way]["chosen"]
    assert 0 < chosen["offset"] <= 1
    assert chosen["peak"] <= found["limit"]
    (line,) = found[way]["said"]
    assert line.startswith(f"tfwave: the offset of the waves is {chosen['offset']:.3f}: they need up to ")
    assert line.endswith(f"in a pool of {in_words(found['limit'])}")


@pytest.mark.parametrize("way", WAYS)
def test_waves_are_told_and_what_was_measured_is_drawn(found: dict[str, Any], way: str) -> None:
    chosen, given = found[way]["chosen"]["told"], found[way]["given"]["told"]
    assert chosen["tags"] == ["tfwave/plan/waves", "tfwave/memory/waves"]
    assert given["tags"] == ["tfwave/plan/waves"]
    assert chosen["files"] == ["waves.html", "waves.md", "waves.plan.json"]
    assert given["files"] == ["waves.html", "waves.md"]
    assert "## What a step holds in memory" in chosen["page"]
    assert f"in a pool of {in_words(found['limit'])}" in chosen["page"]
    said = f"| waves | 2 waves, offset {found[way]['chosen']['offset']:g}, average wave |"
    assert said in chosen["page"]
    assert said in given["page"]
    assert "no step was measured" in given["page"]


@pytest.mark.parametrize("way", WAYS)
def test_the_steps_that_are_measured_leave_nothing_behind(found: dict[str, Any], way: str) -> None:
    """Bit by bit: losses and metrics, also of rests; weights, slots, statistics and seeds, of all waves."""
    chosen, given = found[way]["chosen"], found[way]["given"]
    assert chosen["losses"] == given["losses"]
    assert chosen["bits"] == given["bits"]
    assert chosen["offset"] == given["offset"]
    assert len(chosen["losses"]) == {"fit": EPOCHS * (CALLS + 1), "loop": BATCHES}[way]


def test_the_number_that_is_chosen_trains_as_that_number(found: dict[str, Any]) -> None:
    """Two waves or plain training, as busy as the cores are: bit for bit, and with the reason."""
    counted = found["counted"]
    waves, (line,) = counted["waves"], counted["said"]
    assert waves["count"] in (1, 2)
    assert line.startswith(f"tfwave: waves='auto' is {waves['count']}, ")
    assert line.endswith(waves["verdict"])
    assert counted["chosen"]["bits"] == counted["given"]["bits"]
    assert counted["chosen"]["losses"][-1] == counted["given"]["losses"][-1]
    assert len(counted["chosen"]["losses"]) == EPOCHS * (CALLS + 1)


def test_what_was_chosen_is_kept_as_a_plan(found: dict[str, Any]) -> None:
    chosen, planned = found["fit"]["chosen"], found["planned"]
    assert json.loads(chosen["plan"])["waves"]["offset"] == chosen["offset"]
    assert {name: planned[name] for name in ("losses", "bits", "offset", "plan")} == {
        name: chosen[name] for name in ("losses", "bits", "offset", "plan")
    }
    assert found["fit"]["given"]["plan"] is None
    assert planned["refused"].startswith("PlanError: the plan was made for another graph: ")


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("fit", f"PlanError: (two waves hold|{NOT_ONE}) .* {WAYS_OUT}"),
        ("loop", f"PlanError: (two waves hold|{NOT_ONE}) .* {WAYS_OUT}"),
        ("function", "EnforcerError: .* call once outside of a tf.function, or give the offset as a number"),
        (
            "printing",
            r"EnforcerError: .*\(PrintV2\) changes what is no variable: leave it out, or give the offset",
        ),
    ],
)
def test_what_cannot_be_measured_or_does_not_fit_is_refused(
    found: dict[str, Any], case: str, message: str
) -> None:
    assert re.match(message, found["refused"][case])


def test_a_pool_without_a_limit_is_refused() -> None:
    message = r"offset='auto' .*call tfwave.colocate.limit_memory\('512MiB'\) before .*, or give the offset"
    with pytest.raises(EnforcerError, match=message):
        TickTockCallback(offset="auto")
    with pytest.raises(EnforcerError, match=message):
        tfwave.distribute.wrap(tf.distribute.MirroredStrategy(["/device:CPU:0"]), waves=2, offset="auto")
