"""How many steps one call makes, and who says so."""

import logging
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

from tfwave.distribute.overlap import Overlap, StepChoice, overlap
from tfwave.errors import EnforcerError


class Graph:
    """What a function is traced into."""


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> list[Graph]:
    """Functions are traced as they are made; the graphs."""
    graphs: list[Graph] = []

    def unrolled(step: Any, count: int, on_trace: Callable[[Any], None]) -> tuple[Any, int]:
        graphs.append(Graph())
        on_trace(graphs[-1])
        return step, count

    monkeypatch.setattr(import_module("tfwave.distribute.overlap"), "unrolled", unrolled)
    return graphs


def test_the_user_says_how_many_steps(traced: list[Graph]) -> None:
    train = overlap(len, 8)
    assert (train.steps, train.function) == (8, (len, 8))
    assert train.take() == ((len, 8), 8)
    assert train.take(8) == ((len, 8), 8)
    assert train.take(3) == ((len, 3), 3)
    assert (train.steps, len(traced)) == (8, 2)


def test_of_several_traces_the_first_decides() -> None:
    """As those of a whole batch and of the last one, which are measured by the time that advice is taken."""
    graphs = [Graph() for _ in range(50)]
    choice = StepChoice("len", None, graphs.index)
    for graph in reversed(graphs):
        choice.note(graph)
    assert choice.renew() == 49


@pytest.mark.parametrize("steps", [0, -1])
def test_there_must_be_a_step(steps: int, traced: list[Graph]) -> None:
    with pytest.raises(EnforcerError, match="give at least 1"):
        overlap(len, steps)
    with pytest.raises(EnforcerError, match="give at least 1"):
        overlap(len, 2).take(steps)


def test_somebody_must_choose() -> None:
    with pytest.raises(EnforcerError, match="Give steps, or the wrapped strategy"):
        overlap(len)
    with pytest.raises(EnforcerError, match="has no schedule"):
        overlap(len, strategy=object())


def test_a_step_that_xla_is_to_compile_is_refused(traced: list[Graph]) -> None:
    """It ran uncompiled, in silence."""

    class Compiled:
        python_function = staticmethod(len)
        _jit_compile = True

        def __call__(self) -> None:
            """Make a step."""

    with pytest.raises(EnforcerError, match="XLA is to compile the step 'len', and would run all"):
        overlap(Compiled(), 2)


def test_the_planner_chooses_when_it_has_measured(
    traced: list[Graph], caplog: pytest.LogCaptureFixture
) -> None:
    advice: dict[Graph, int] = {}
    train = Overlap(len, StepChoice("len", None, advice.get))
    with caplog.at_level(logging.INFO, "tfwave"):
        assert [train.take().steps for _ in range(3)] == [1, 1, 1]
        advice[traced[0]] = 4
        assert (train.steps, train.function) == (1, (len, 1))  # looking changes nothing
        assert [train.take().steps for _ in range(3)] == [4, 4, 4]
        assert train.take(3).steps == 3
        advice[traced[0]] = 8
        assert train.take().steps == 4
    assert [record.message for record in caplog.records] == ["tfwave: len: 4 steps a call from now on"]
