"""Figures as TicTac counts: E of each traced step by its own times, its regression, and stragglers."""

import math
from dataclasses import replace

import pytest

from tests.bundles import small_bundle, small_graphs, traced_step
from tests.graphs import WORKER
from tfwave.bundle.bundle import Bundle
from tfwave.order.bounds import Bounds
from tfwave.proto.tensorflow_pb2 import StepStats
from tfwave.report.figures import step_figures
from tfwave.report.iterations import Iteration, explained, explained_normalized, traced_iterations

PULLS = 3 * 100e-6 + 3_000_100 / 1e8
"""Seconds of the pulls of a step, one after the other."""
PUSH = 600e-6
KERNELS = {"a": 5_000, "b": 4_000, "grad": 1_000, "apply": 100}


def of_steps(*steps: StepStats) -> Bundle:
    return replace(small_bundle(), steps=steps, graphs=small_graphs())


def delayed(stats: StepStats, micros: int) -> StepStats:
    """The worker's kernels begin later, one at a time."""
    for device in stats.dev_stats:
        for event in device.node_stats:
            if event.node_name in ("a", "b", "grad"):
                event.all_start_micros += micros
                micros += KERNELS[event.node_name]
    return stats


def test_bounds_are_those_of_the_step_itself() -> None:
    """Kernels, which ran side by side, took 3 and 4 ms, all of it while tensors arrived."""
    found = traced_iterations(small_bundle())
    assert [(i.step, i.device) for i in found] == [(0, WORKER), (1, WORKER)]
    for iteration, kernels in zip(found, (0.003, 0.004), strict=True):
        assert iteration.bounds.upper_seconds == pytest.approx(PULLS + PUSH + kernels, abs=2e-5)
        assert iteration.bounds.lower_seconds == pytest.approx(PULLS, abs=2e-5)
        assert iteration.seconds == pytest.approx(PULLS, abs=2e-5)
        assert iteration.efficiency == pytest.approx(1, abs=1e-2)


def test_efficiency_falls_as_kernels_wait_for_what_arrives() -> None:
    """They take 10 ms: begun when all is there, half of it before, or all of it."""
    late = [round(PULLS * 1e6) - before for before in (0, 5_000, 10_000)]
    found = traced_iterations(of_steps(*(delayed(traced_step(KERNELS), micros) for micros in late)))
    spread = 0.010 + PUSH
    assert [i.efficiency for i in found] == pytest.approx(
        [PUSH / spread, (PUSH + 0.005) / spread, 1.0], abs=2e-3
    )
    assert [i.seconds for i in found] == pytest.approx([PULLS + 0.01, PULLS + 0.005, PULLS], abs=2e-5)


def test_a_step_of_which_too_much_was_lost_is_left_out() -> None:
    whole, without = traced_step(KERNELS), traced_step(KERNELS, lost=frozenset({"v2"}))
    assert [i.step for i in traced_iterations(of_steps(without, whole))] == [1]


def iteration(seconds: float, upper: float = 3.0, lower: float = 1.0) -> Iteration:
    return Iteration(0, WORKER, seconds, Bounds(upper, lower))


def test_efficiency_explains_step_times_that_orders_make() -> None:
    assert explained([iteration(1.0), iteration(1.7), iteration(2.9)]) == pytest.approx(1)
    slower = [iteration(1.0), iteration(2.0, 6.0, 2.0), iteration(1.5), iteration(3.1, 6.0, 2.0)]
    assert explained(slower) < 0.5
    assert explained_normalized(slower) == pytest.approx(1)
    assert math.isnan(explained([iteration(1.0)]))
    assert math.isnan(explained([iteration(1.0), iteration(1.0)]))


def test_of_steps_the_most_is_told_beside_the_median() -> None:
    steps = [(1.0, 4.0), (4.0, 1.0), (2.0, 1.0), (2.0, 2.0)]
    found = step_figures(steps, [iteration(1.0), iteration(2.0), iteration(2.5)])
    assert (found.median_seconds, found.straggler, found.straggler_median) == (3.0, 0.75, 0.625)
    assert (found.traced, found.efficiency, found.efficiency_median, found.speedup) == (3, 1.0, 0.5, 2.0)


def test_without_a_trace_there_is_no_efficiency() -> None:
    found = step_figures([(1.0,)], [])
    assert (found.traced, found.straggler, found.stdev_seconds) == (0, 0.0, 0.0)
    assert math.isnan(found.efficiency)
    assert math.isnan(found.efficiency_median)
    with pytest.raises(ValueError, match="no steps"):
        step_figures([], [])
