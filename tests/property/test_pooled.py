"""Fits that a pool in one piece can serve."""

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest

from tests.full import few_or
from tests.offloaded import PIECE, random_step, replayed, whole_fit, whole_pieces
from tests.unit.cli.test_fit_cli import training
from tfwave.memory.pool.growing import bfc_in_one_region
from tfwave.memory.pool.lives import live_peak
from tfwave.memory.pool.serves import bfc_serves
from tfwave.memory.slots import limit_for
from tfwave.memory.slots import room as room_of
from tfwave.offload import pooled
from tfwave.offload.captured import captured_step
from tfwave.offload.fit import Fit, Fits, Policy, side_by_side
from tfwave.offload.pooled import FIRST_LOST, RACED, PoolFits, in_bfc, run_lives
from tfwave.offload.question import Question
from tfwave.offload.section import memory_section
from tfwave.offload.step import Buffer, Op, Phase, TrainingStep
from tfwave.offload.turns import FREE_SHARE
from tfwave.plan.fingerprint import NO_GRAPH
from tfwave.sizes import MIB

SEEDS = sorted({*range(few_or(24, 60)), 33, 41})
"""Of fits, which take a second each.

In 33 what holds less is faster than the first that is served, in 41 than what waits more.
"""

LARGE_PIECE = 1 << 18
"""Steps of such pieces have many MiB."""


RACES = few_or(8, pooled.RACES)
"""Other runs of each fit that are tried."""


@pytest.fixture(autouse=True)
def few_races(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pooled, "RACES", RACES)


class CachedFits(Fits):
    """Finds each fit once for all who ask."""

    def __init__(self, step: TrainingStep) -> None:
        super().__init__(step)
        self.within = cache(super().within)


def room_for(fit: Fit, size: int) -> int:
    """Of a pool that has so many bytes for the step itself."""
    return fit.layout.step.resident + min(FIRST_LOST, fit.layout.step.resident) + size


def tried(fits: Fits, room: int) -> Iterator[Fit]:
    """With less and less held, down to all away that can be; side by side and not."""
    yield from fits.away()
    held = room
    while (fit := fits.within(held, Policy.GREEDY)) is not None:
        yield fit
        yield from (side_by_side(fit, most) for most in (4, 2, 1, 0))
        held = int(min(held, fit.forecast.peak) * 0.93)


def is_served(fit: Fit, room: int) -> bool:
    """Asks of a pool no more than it takes to know: filling it is slow."""
    return fit.forecast.peak <= room and all(way.has_room(room) for way in in_bfc(fit))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_fit_is_the_fastest_that_the_pool_serves(seed: int) -> None:
    """And there is one wherever all that can be away leaves room, one op after the other."""
    rng = random.Random(seed)
    pool = PoolFits(CachedFits(whole_pieces(random_step(rng, rng.randint(3, 14)))), in_bfc, 1, 1)
    held = min(one.needed for one in pool.away) + rng.randint(-4, 30) * PIECE
    limit = limit_for(held, 1)
    room = room_of(limit, 1)
    served = pool.fastest(limit, Policy.GREEDY)
    others = tried(pool.fits, room)
    if served is None:
        assert not any(is_served(each, room) for each in others)
        return
    fit = served.fit
    assert is_served(fit, room)
    assert is_served(fit, served.needed)
    least = max(fit.forecast.peak, *(way.needed for way in in_bfc(fit)))
    assert served.needed == least or not is_served(fit, served.needed - max(1, least // 128))
    faster = [each for each in others if each.seconds * 1.001 < fit.seconds]  # ops that begin earlier may
    assert not any(is_served(each, room) for each in faster)  # make others late


@pytest.mark.parametrize("policy", [Policy.GREEDY, Policy.DYMEM])
@pytest.mark.parametrize("seed", range(few_or(20, 40)))
def test_a_run_holds_no_more_than_promised(policy: Policy, seed: int) -> None:
    step, fit = whole_fit(policy, seed)
    ran = fit.forecast.run
    for run in (ran, *(ran.raced(random.Random(n), 4) for n in range(5))):
        assert live_peak(run_lives(fit, run)) + step.resident <= fit.forecast.peak * (1 + FREE_SHARE)
    alone = side_by_side(fit, 0)
    held = max(replayed(step, memory_section(alone, NO_GRAPH, 1 << 40, alone.forecast.peak)))
    runs = live_peak(run_lives(alone, alone.forecast.run)) + step.resident
    assert runs <= held * (1 + FREE_SHARE)
    assert alone.forecast.moves or runs >= held * (1 - FREE_SHARE)
    assert not any(alone.forecast.turns.beside)


@pytest.mark.parametrize("seed", range(10))
def test_scratch_is_taken_behind_the_outputs_of_all_that_begins_with_its_op(seed: int) -> None:
    """Those are two others at most, which begin in the next two moments."""
    fit = whole_fit(Policy.GREEDY, seed)[1]
    run = fit.forecast.run.run
    lives = run_lives(fit, fit.forecast.run)
    for number, op in enumerate(fit.layout.step.ops):
        begins, ends = run.begins[number], run.ends[number]
        here = [one for one in lives if one.op == op.node and begins <= one.born < ends]
        if op.scratch:
            assert here[-1].is_scratch
            assert here[-1].born == min(begins + 2, ends - 1)
        assert not any(one.is_scratch for one in here[:-1])


def test_what_lies_apart_counts() -> None:
    """In some steps that hold little enough in all, nothing large enough is free in one piece."""
    apart = 0
    for seed in range(few_or(30, 60)):
        step = whole_pieces(random_step(random.Random(seed), 12))
        apart += any(not is_served(fit, room_for(fit, fit.forecast.peak)) for fit in Fits(step).away())
    assert apart > 5


@pytest.mark.parametrize("seed", range(20))
def test_what_outlives_the_step_takes_its_part_of_the_pool(seed: int) -> None:
    step = whole_pieces(random_step(random.Random(seed), 8))
    kept = tuple(replace(buffer, stays=number % 3 == 0) for number, buffer in enumerate(step.buffers))
    for fit in Fits(replace(step, buffers=kept)).away():
        held = max(replayed(fit.layout.step, memory_section(fit, NO_GRAPH, 1 << 40, fit.forecast.peak)))
        taken_most = live_peak(run_lives(fit, fit.forecast.run)) + step.resident
        assert held * (1 - FREE_SHARE) <= taken_most <= held * (1 + FREE_SHARE)


def test_what_other_runs_take_counts() -> None:
    """Where ops run side by side, another may be done first; one after the other they are done as forecast."""
    others = 0
    for seed in range(100):
        fit = whole_fit(Policy.GREEDY, seed)[1]
        chance = random.Random(0)
        runs = [fit.forecast.run, *(fit.forecast.run.raced(chance, RACED) for _ in range(RACES))]
        size = bfc_in_one_region(run_lives(fit, runs[0])).size
        served = [bfc_serves(run_lives(fit, run), size) for run in runs]
        assert [way.has_room(room_for(fit, size)) for way in in_bfc(fit)] == served
        others += any(served) and not all(served)
    assert others > 5


def test_a_tenth_of_the_pool_is_kept_free_where_ops_run_side_by_side() -> None:
    """And a fiftieth where one runs after the other: nobody knows which op of several is done first."""
    beside, captured = 0, captured_step(training(8))
    for seed in range(few_or(20, 40)):
        step = whole_pieces(random_step(random.Random(seed), 9), LARGE_PIECE)
        for held in (1, 1.5, 2):
            limit = limit_for(int(Fits(step).least_limit * held), 1)
            asked = Question(replace(captured, step=step), None, limit)
            if asked.fit is None or asked.needed is None:
                continue
            is_beside = any(asked.fit.forecast.turns.beside)
            beside += is_beside
            assert asked.needed <= room_of(limit // MIB * MIB, 1 + is_beside)
            assert is_served(asked.fit, asked.needed)
            assert asked.least < limit_for(asked.needed, 1 + is_beside) + MIB
    assert beside > 5


def test_what_lies_apart_is_promised() -> None:
    apart, captured = 0, captured_step(training(8))
    for seed in range(6):
        step = whole_pieces(random_step(random.Random(seed), 9), LARGE_PIECE)
        asked = Question(replace(captured, step=step), None, 0)
        least = replace(asked, limit=asked.least)
        memory = least.plan().memory
        assert memory is not None
        assert memory.peak_bytes == least.needed
        assert memory.least_bytes <= memory.limit_bytes == asked.least
        assert limit_for(memory.peak_bytes, 1) <= asked.least
        apart += memory.peak_bytes > min(fit.forecast.peak for fit in Fits(step).away())
    assert apart


@pytest.mark.parametrize(
    ("is_value", "besides", "needed"), [(True, 0, 12 * MIB + PIECE), (False, 2 * PIECE, 8 * MIB)]
)
def test_what_a_variable_was_given_lies_in_the_way_of_the_next_step(
    is_value: bool, besides: int, needed: int
) -> None:
    """It is made behind a piece that is free soon, and lasts until the next one is made: its old value is free."""
    names = "large", "largest", "small", "value", "assign"
    ops = [
        Op(name, 1e-3, 0, tuple(range(n)[-1:]), Phase.FORWARD, repeats=False) for n, name in enumerate(names)
    ]
    buffers = (
        Buffer(("large:0",), 8 * MIB, (0,), (0, 1)),
        Buffer(("small:0",), 4 * MIB, (2,), (2, 3)),
        Buffer(("value:0",), PIECE, (3,), (3, 4), stays=True, is_value=is_value),
    )
    (fit, *_) = Fits(TrainingStep("/cpu:0", tuple(ops), buffers, PIECE)).away()
    for size, serves in ((needed, True), (needed - PIECE, False)):
        assert all(way.has_room(besides + size) for way in in_bfc(fit)) is serves
