"""The ways of `tools/bench/memory/largest_batch.py`: each does to a step only what its name says."""

from dataclasses import replace
from random import Random

import pytest

from tests.offloaded import random_step, whole_pieces
from tests.unit.cli.test_fit_cli import training
from tfwave.memory.slots import limit_for, room
from tfwave.offload.captured import captured_step
from tfwave.offload.fit import Fits
from tfwave.offload.layout import Layout
from tfwave.plan.memory import OFFLOAD, RECOMPUTE
from tfwave.sizes import MIB
from tools.bench.memory.fit_promises import drawn, promises
from tools.bench.memory.fitted_modes import MODELS, PLACED, PLANNED, WAYS
from tools.bench.memory.largest_batch import FITTINGS
from tools.bench.record import RECORDS


def test_each_way_does_only_what_it_is_called() -> None:
    used: dict[str, set[str]] = {way: set() for way in FITTINGS}
    captured = captured_step(training(8))
    for seed in range(8):
        step = whole_pieces(random_step(Random(seed), 10), MIB)
        least, most = Fits(step).least_limit, Layout.of(step, tuple(range(len(step.ops))), 3).peak
        limit = limit_for((least + most) // 2, 2)
        for way, fitting in FITTINGS.items():
            for memory in fitting(replace(captured, step=step), limit):
                is_sure = way != "both" or not any(memory.beside)
                assert memory.peak_bytes <= room(limit, 1 if is_sure else 2)
                assert bool(memory.places) == (way == PLACED)
                used[way] |= {tensor.method for tensor in memory.tensors}
    assert used.pop(PLACED) <= used["both"]
    assert used == {
        "order": set(),
        "offload": {OFFLOAD},
        "recompute": {RECOMPUTE},
        "both": {OFFLOAD, RECOMPUTE},
    }


def test_what_takes_hours_is_recorded_in_pieces() -> None:
    """One for each model and way, so that a run that was stopped goes on with those that are missing."""
    assert set(FITTINGS) == set(PLANNED)
    pieces = {(command[2], command[4]) for command in RECORDS["largest_batch"]}
    assert pieces == {(model, way) for model in MODELS for way in WAYS}
    assert [command[2] for command in RECORDS["fit_promises"]] == 2 * list(MODELS)


def test_promises_are_counted() -> None:
    case = {"model": "bert", "batch": 8, "share": 0.5}
    ran = case | {"fits": True, "right": True, "promised": 0.1, "measured": 0.25}
    ran_out = case | {"fits": True, "right": False}
    refused = case | {"fits": False, "right": True}
    told = promises([ran, ran_out, refused, ran | {"measured": 0.15}])
    assert told["points_off"] == pytest.approx(10)
    assert (told["cases"], told["said_to_fit"], told["right"]) == (4, 3, 0.75)
    assert told["wrong"] == [["bert", 8, 0.5]]
    assert promises([])["right"] is None


def test_cases_are_the_same_each_time() -> None:
    cases = {model: list(drawn(model, 10)) for model in MODELS}
    assert cases == {model: list(drawn(model, 10)) for model in MODELS}
    assert len({case for each in cases.values() for case in each}) > 50
