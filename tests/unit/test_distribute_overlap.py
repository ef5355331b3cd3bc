"""How many steps one call makes, and who says so."""

import logging
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest

from tests.graphs import SERVERS, WORKER, Builder
from tfwave.capture.function import FunctionGraph
from tfwave.capture.worker_trace import CostedFunction
from tfwave.cost.model import CostSource
from tfwave.distribute.overlap import Overlap, StepChoice, overlap
from tfwave.distribute.steps import MOST_BYTES, MOST_NODES, StepFigures, choose_steps, step_figures
from tfwave.errors import EnforcerError
from tfwave.graph.transfer import Transfer, find_transfers
from tfwave.graph.view import GraphView

WIRE = StepFigures(0.0, 1.0, 1.0, 0.0, nodes=100, bytes=1000)


def test_the_bound_is_that_of_the_flow_shop() -> None:
    step = StepFigures(0.1, pull_seconds=0.5, push_seconds=0.4, largest_seconds=0.05, nodes=1, bytes=1)
    for steps in (1, 2, 8):
        assert step.seconds(steps) == pytest.approx((0.5 + 0.4 + (steps - 1) * 0.55) / steps)
    assert replace(step, compute_seconds=3).seconds(8) == 3


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (WIRE, 32),
        (replace(WIRE, push_seconds=0.0), 1),  # what only reads gains nothing
        (replace(WIRE, compute_seconds=3.0), 1),
        (replace(WIRE, compute_seconds=1.9), 2),
        (replace(WIRE, compute_seconds=1.5), 2),
        (replace(WIRE, compute_seconds=1.26), 4),
        (replace(WIRE, compute_seconds=1.12), 8),
        (replace(WIRE, largest_seconds=1.0), 1),
        (replace(WIRE, largest_seconds=0.6), 8),
        (replace(WIRE, nodes=MOST_NODES // 4), 4),
        (replace(WIRE, bytes=MOST_BYTES // 16), 16),
        (replace(WIRE, nodes=2 * MOST_NODES), 1),
    ],
)
def test_the_fewest_steps_are_chosen_that_more_do_not_better(step: StepFigures, expected: int) -> None:
    assert choose_steps(step) == expected


class Costs:
    """A second for each op and transfer."""

    source = CostSource("file", "file")

    def op_seconds(self, view: GraphView, node: int) -> float:
        return float(view.ops[node] == "AddN")

    def transfer_seconds(self, transfer: Transfer) -> float:
        return 1.0


def test_figures_are_of_the_worker_and_both_directions() -> None:
    build = Builder()
    build.const(SERVERS[0], "v")
    build.const(SERVERS[1], "w")
    build.const(SERVERS[1], "rate")
    build.op(WORKER, "first", [build.pair("v", SERVERS[0], WORKER), build.pair("w", SERVERS[1], WORKER)])
    build.op(WORKER, "second", ["first"])
    build.op(
        SERVERS[0],
        "apply",
        [build.pair("second", WORKER, SERVERS[0]), build.pair("rate", SERVERS[1], SERVERS[0])],
    )
    view = GraphView.of(*build.partitions.values())
    transfers = tuple(replace(t, bytes=10) for t in find_transfers(view).data)
    function = FunctionGraph("f", WORKER, view, transfers)
    figures = step_figures(CostedFunction(function, transfers, Costs()))
    assert (figures.compute_seconds, figures.pull_seconds, figures.push_seconds) == (2, 2, 1)
    assert (figures.largest_seconds, figures.nodes, figures.bytes) == (1, len(view), 20)


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
