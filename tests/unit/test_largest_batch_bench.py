"""The ways of `tools/bench/largest_batch.py`: each does to a step only what its name says."""

from random import Random

from tests.offloaded import random_step
from tfwave.offload.fit import least_limit
from tfwave.offload.layout import Layout, Method
from tools.bench.largest_batch import FITTINGS


def test_each_way_does_only_what_it_is_called() -> None:
    used: dict[str, set[Method]] = {way: set() for way in FITTINGS}
    for seed in range(8):
        step = random_step(Random(seed), 10)
        least, most = least_limit(step), Layout.of(step, tuple(range(len(step.ops))), 3).peak
        for way, fitting in FITTINGS.items():
            fit = fitting(step, (least + most) // 2)
            if fit is not None:
                assert fit.forecast.peak <= (least + most) // 2
                used[way] |= {move.method for move in fit.forecast.moves}
    assert used == {
        "order": set(),
        "offload": {Method.OFFLOAD},
        "recompute": {Method.RECOMPUTE},
        "both": {Method.OFFLOAD, Method.RECOMPUTE},
    }
