"""The offset that is chosen for a pool; nothing here runs TensorFlow."""

import logging
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tests.unit.waves.test_wave_fit import chain, chain_item, limit_for, traced, unpaced
from tests.waves import rise_and_fall, step_of
from tfwave.capture import wave_choice
from tfwave.capture.wave_choice import MeasuredStep, WaveChoice, check_pool
from tfwave.errors import EnforcerError, PassError, PlanError
from tfwave.graph.item import GraphItem
from tfwave.plan.plan import Plan
from tfwave.proto.tensorflow_pb2 import GraphDef
from tfwave.runtime.waves.options import WaveOptions
from tfwave.sizes import in_words
from tfwave.waves.needs import PoolNeeds
from tfwave.waves.verdict import StepUse

AUTO = WaveOptions(offset="auto")
OTHERS = 1000


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The steps that were measured, by their arguments; in a pool just too small for an offset of 0."""
    training, names = chain(3)
    memory = traced(names, rise_and_fall(4, 3))
    found: list[Any] = []

    def measure(step: Any, args: Any, carried: Any) -> MeasuredStep:
        found.append((step, args, carried))
        return MeasuredStep(training, PoolNeeds(memory, OTHERS), StepUse(0.1))

    monkeypatch.setattr(wave_choice, "measure_step", measure)
    monkeypatch.setattr(wave_choice, "pool_limit", lambda: limit_for(unpaced(memory, 4) + OTHERS) - 1)
    return found


def test_an_offset_is_chosen_once(measured: list[Any], caplog: pytest.LogCaptureFixture) -> None:
    step: Any = "step"
    choice = WaveChoice(AUTO)
    assert choice.offset is None
    with caplog.at_level(logging.INFO, "tfwave"):
        first = choice.options(step, "batch", ["count"])
    assert first == choice.options(step, "larger batch") == WaveOptions(offset=1 / 3)
    assert choice.offset == 1 / 3
    assert measured == [("step", "batch", ["count"])]
    (line,) = caplog.messages
    assert line.startswith("tfwave: the offset of the waves is 0.333: they need up to 10")
    assert line.endswith(f"bytes by the model, in a pool of {in_words(wave_choice.pool_limit())}")


def built_again(item: GraphItem) -> GraphItem:
    """As of a model that is built again in one process: with other names."""
    graph = GraphDef()
    graph.CopyFrom(item.graph)
    for node in graph.node:
        node.name = f"again/{node.name}"
        node.input[:] = [re.sub(r"^(\^?)", r"\1again/", text) for text in node.input]
    return replace(item, graph=graph, fetches=tuple(f"again/{fetch}" for fetch in item.fetches))


def test_what_was_chosen_is_a_plan_for_another_run(
    measured: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first step is held against it; what comes with another batch is not."""
    step: Any = "step"
    chosen = WaveChoice(AUTO)
    assert chosen.waves is None
    chosen.options(step, "batch")
    waves = chosen.waves
    assert waves is not None
    assert (waves.count, waves.offset, waves.limit_bytes) == (2, 1 / 3, wave_choice.pool_limit())
    assert waves.limit_bytes >= waves.needed_bytes > waves.limit_bytes * 0.8
    items = {"step": chain_item(3)[0], "again": built_again(chain_item(3)[0]), "other": chain_item(4)[0]}
    monkeypatch.setattr(wave_choice, "RewrittenStep", lambda step, _: SimpleNamespace(plain=items[step]))
    options = WaveOptions.given(None, "batch", None, Plan(waves=waves))
    planned = WaveChoice(options)
    assert planned.options(step, "batch") == WaveOptions(2, "batch", 1 / 3, waves)
    again: Any = "again"
    assert WaveChoice(options).options(again, "batch") == WaveOptions(2, "batch", 1 / 3, waves)
    other: Any = "other"
    assert planned.options(other, "another batch") == options
    with pytest.raises(PlanError, match="made for another graph"):
        WaveChoice(options).options(other, "batch")
    assert len(measured) == 1


def test_a_plan_leaves_nothing_to_say(measured: list[Any]) -> None:
    step: Any = "step"
    choice = WaveChoice(AUTO)
    choice.options(step, "batch")
    assert WaveOptions.given(3, "wave", None, None) == WaveOptions(3)
    assert WaveOptions.given(None, "wave", "auto", None) == AUTO
    for waves, offset in ((2, None), (None, 1 / 3)):
        with pytest.raises(PassError, match="and the plan says it, too: leave it out"):
            WaveOptions.given(waves, "wave", offset, Plan(waves=choice.waves))


@pytest.mark.parametrize("waves", [2.5, 2.0, "Auto", "3"])
def test_waves_are_a_whole_number(waves: Any) -> None:
    with pytest.raises(PassError, match=r"tick_tock\{waves=.*\}: Input should be a valid integer"):
        WaveOptions.given(waves, "wave", None, None)


def test_waves_may_be_a_number_of_numpy() -> None:
    assert WaveOptions.given(cast("Any", np.int64(3)), "wave", None, None) == WaveOptions(3)


def test_what_fits_nowhere_says_the_ways_out(monkeypatch: pytest.MonkeyPatch, measured: list[Any]) -> None:
    monkeypatch.setattr(wave_choice, "pool_limit", lambda: OTHERS)
    step: Any = "step"
    choice = WaveChoice(AUTO)
    with pytest.raises(
        PlanError, match=r"of the limit of 1000 bytes.*take a smaller batch, or raise the limit"
    ):
        choice.options(step, "batch")
    assert len(measured) == 1
    assert choice.offset is None


def test_an_offset_that_is_given_needs_no_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_CPU_ALLOCATOR_USE_BFC", raising=False)
    step: Any = "step"
    choice = WaveChoice(WaveOptions(3, offset=0.5))
    assert choice.offset == 0.5
    assert choice.options(step, "batch") == WaveOptions(3, offset=0.5)
    with pytest.raises(
        EnforcerError, match=r"offset='auto' .*limit_memory\('512MiB'\).*or give the offset as a number"
    ):
        WaveChoice(AUTO)
    with pytest.raises(EnforcerError, match="has no limit"):
        check_pool(AUTO)


@pytest.mark.parametrize(
    "case",
    [
        (
            0.1,
            500,
            2,
            "waves='auto' is 2, at the offset 0.000: they need up to 420 bytes .*: gain expected: x1",
        ),
        (0.1, 444, 1, "plain training: two waves hold 400 bytes at the least by the model"),
        (1.0, 500, 1, "plain training: tick-tock will not help: .* keeps 100% of the compute units busy"),
    ],
)
def test_the_number_is_chosen_for_a_reason(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, case: tuple[float, int, int, str]
) -> None:
    """Two waves where they gain, and fit with the batch that is trained; whatever it is, it is kept as a plan."""
    share, limit, count, says = case
    training, names = chain(4)
    memory = traced(names, step_of([(400, 0, 0), (0, 0, 380), *[(0, 0, 0)] * 6, (0, 0, 20)]))
    needs = PoolNeeds(memory, -20, 5, own=5)
    monkeypatch.setattr(wave_choice, "measure_step", lambda *_: MeasuredStep(training, needs, StepUse(share)))
    monkeypatch.setattr(wave_choice, "pool_limit", lambda: limit)
    options = WaveOptions.given("auto", "batch", None, None)
    choice = WaveChoice(options)
    step: Any = "step"
    assert choice.count == 2
    with caplog.at_level(logging.INFO, "tfwave"):
        chosen = choice.options(step, "batch")
    assert (chosen.waves, chosen.offset, choice.count) == (count, 0.0, count)
    (line,) = caplog.messages
    assert re.search(says, line)
    waves = choice.waves
    assert waves is not None
    assert line.endswith(waves.verdict)
    assert (waves.count, waves.limit_bytes) == (count, limit)
    assert waves.needed_bytes == (420 if count == 2 else 385)
    assert WaveOptions.given(None, "batch", None, Plan(waves=waves)) == replace(chosen, planned=waves)


def test_waves_and_offset_are_chosen_together() -> None:
    assert WaveOptions.given("auto", "wave", "auto", None) == WaveOptions.given("auto", "wave", None, None)
    with pytest.raises(PassError, match=r"waves='auto' chooses the offset, too, and it is 0\.5: leave"):
        WaveOptions.given("auto", "wave", 0.5, None)


def test_which_options_an_offset_can_be_chosen_for() -> None:
    assert AUTO.is_auto
    assert AUTO.at(0.25) == WaveOptions(offset=0.25)
    for waves in (1, 3):
        with pytest.raises(PassError, match=f"known for 2 waves, not for {waves}: take waves=2, or give"):
            WaveOptions(waves, offset="auto")
    with pytest.raises(PassError, match="waves is 65"):
        WaveOptions(65, offset="auto")
    with pytest.raises(PassError, match="average"):
        WaveOptions(2, "mean", "auto")
    late: Any = "late"
    with pytest.raises(PassError, match="offset"):
        WaveOptions(offset=late)
