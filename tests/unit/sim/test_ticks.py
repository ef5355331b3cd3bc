"""Exact integer time."""

import math
import random

import pytest

from tests.graphs import SERVERS, WORKER, Builder, by_name
from tfwave.cost.ticks import in_ticks, ticks_of
from tfwave.errors import CostError
from tfwave.graph.transfer import find_transfers
from tfwave.graph.view import GraphView


def test_decimal_sums_tie() -> None:
    assert 0.1 + 0.2 != 0.3
    tenth, fifth, rest = in_ticks([0.1, 0.2, 0.3], []).ops
    assert tenth + fifth == rest


@pytest.mark.parametrize("seed", range(20))
def test_any_decimals_sum_as_on_paper(seed: int) -> None:
    rng = random.Random(seed)
    digits, count = rng.randint(1, 11), 200
    whole = [rng.randrange(10**digits) for _ in range(count)]
    ticks = in_ticks([w / 10**digits for w in whole], [sum(whole) / 10**digits])
    assert sum(ticks.ops) == ticks.transfers[0]


@pytest.mark.parametrize("total", [1e-12, 3e-5, 0.999, 1.0, 7.5, 10.0, 123456.0, 1e9])
def test_the_sum_has_fifteen_digits(total: float) -> None:
    ticks = in_ticks([total], [])
    assert len(str(ticks.ops[0])) == 15
    assert ticks.seconds(ticks.ops[0]) == total


@pytest.mark.parametrize("factor", [10.0, 1000.0, 1e6])
def test_scaling_by_a_power_of_ten_scales_the_tick(factor: float) -> None:
    costs = [0.1, 2.5, 0.0003]
    assert in_ticks([c * factor for c in costs], []).ops == in_ticks(costs, []).ops


def test_no_time_at_all_is_no_ticks() -> None:
    assert in_ticks([0.0], [0.0]).ops == [0]
    assert in_ticks([], []).transfers == []


@pytest.mark.parametrize("costs", [[1e308, 1e308], [1e307], [1e-300]])
def test_what_cannot_be_seconds_is_refused(costs: list[float]) -> None:
    with pytest.raises(CostError, match="seconds"):
        in_ticks(costs, [])


@pytest.mark.parametrize("seconds", [-1.0, math.nan, math.inf])
def test_a_cost_that_is_none_is_named(seconds: float) -> None:
    build = Builder()
    build.op(WORKER, "conv", [build.pair("v", SERVERS[0], WORKER, send=False)])
    view = GraphView.of(build.partitions[WORKER])
    transfers = find_transfers(view).data
    with pytest.raises(CostError, match="'conv'"):
        ticks_of(view, [view.names.index("conv")], transfers, by_name(view, {"conv": seconds}, {"recv1": 1}))
    with pytest.raises(CostError, match="'recv1'"):
        ticks_of(view, [], transfers, by_name(view, {}, {"recv1": seconds}))
