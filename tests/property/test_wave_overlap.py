"""One step's memory over itself, instant by instant; and pairs of steps against what can be said on paper."""

import random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.unit.waves.test_wave_fit import chain, traced
from tests.waves import random_step, step_of
from tfwave.errors import PlanError
from tfwave.memory.slots import room
from tfwave.memory.step import StepMemory
from tfwave.waves.fit import fitting_offset, pool_needs, wave_starts
from tfwave.waves.overlap import share_above_half, two_wave_peaks, unpaced_peaks
from tfwave.waves.pair import Pace, WaveStep, pair_seconds
from tfwave.waves.verdict import StepUse, judge_waves

checked = settings(max_examples=100, deadline=None, database=None)
RANDOM = st.randoms(use_true_random=False)
TENTHS = st.integers(1, 40).map(lambda n: n / 10)
SHARES = st.integers(1, 20).map(lambda n: n / 20)


def curve_at(memory: StepMemory, now: float) -> int:
    """The highest of the curve's values at an instant, or the last before it; above what is resident."""
    at = [held for seconds, held in memory.curve if seconds == now]
    before = [held for seconds, held in memory.curve if seconds < now]
    held = max(at) if at else before[-1] if before else memory.profile.resident
    return held - memory.profile.resident


@checked
@given(rng=RANDOM, offset=st.integers(0, 30))
def test_the_peak_is_the_highest_of_all_instants(rng: random.Random, offset: int) -> None:
    """Times are integers, so halves see each instant and what lies between."""
    memory = random_step(rng)
    instants = [half / 2 for half in range(2 * int(memory.seconds + offset) + 5)]
    both = [curve_at(memory, now) + curve_at(memory, now - offset) for now in instants]
    assert two_wave_peaks(memory, [offset]) == (2 * memory.profile.resident + max(both),)


@checked
@given(rng=RANDOM, offset=st.integers(0, 30))
def test_whatever_the_pace_either_wave_stands_still_at_its_worst(rng: random.Random, offset: int) -> None:
    memory = random_step(rng)
    instants = [offset + half / 2 for half in range(2 * int(memory.seconds) + 5)]
    worst = max(curve_at(memory, now) for now in instants)
    assert unpaced_peaks(memory, [offset]) == (memory.profile.peak + memory.profile.resident + worst,)
    assert unpaced_peaks(memory, [offset]) >= two_wave_peaks(memory, [offset])


@checked
@given(rng=RANDOM)
def test_between_one_wave_and_two_at_once(rng: random.Random) -> None:
    memory = random_step(rng)
    alone, resident = memory.profile.peak, memory.profile.resident
    together, *later = two_wave_peaks(memory, [0, 1, 2, 5, memory.seconds + 1])
    assert together == 2 * alone
    assert all(alone + resident <= peak <= 2 * alone for peak in later)


@checked
@given(rng=RANDOM)
def test_time_above_half_is_counted_by_instants(rng: random.Random) -> None:
    memory = random_step(rng)
    if not memory.seconds:
        assert share_above_half(memory) == 0
        return
    above = 0
    for second in range(int(memory.seconds)):
        points = [held for at, held in memory.curve if at <= second]
        above += 2 * points[-1] > memory.profile.peak
    assert share_above_half(memory) == pytest.approx(above / memory.seconds)


@checked
@given(lead=TENTHS, rest=TENTHS, sync=TENTHS, share=SHARES)
def test_a_round_is_tock_after_the_mark(lead: float, rest: float, sync: float, share: float) -> None:
    """While both compute, each is slowed by what both ask for beyond all units; tick may exchange beside tock."""
    step = WaveStep(lead, rest, 0.0, share)
    slower = max(1.0, 2 * share)
    assert pair_seconds(step, Pace.ROUNDS) == pytest.approx(2 * lead + rest * slower)
    exchanging = WaveStep(lead, rest, sync, share)
    ends = pair_seconds(exchanging, Pace.ROUNDS)
    assert 2 * lead + rest * slower + sync <= ends + 1e-9
    assert ends <= 2 * exchanging.seconds + 1e-9


@checked
@given(lead=TENTHS, rest=TENTHS, sync=TENTHS)
def test_waves_that_never_slow_each_other(lead: float, rest: float, sync: float) -> None:
    """Their own steps, the marks, and the link: the longest of them."""
    step = WaveStep(lead, rest, sync, 0.5)
    steady = max(step.seconds, 2 * lead, 2 * sync)
    assert pair_seconds(step, Pace.STEADY) == pytest.approx(steady, rel=1e-6)
    assert pair_seconds(step, Pace.ALTERNATING) == pytest.approx(max(steady, 2 * rest), rel=1e-6)


@checked
@given(lead=TENTHS, rest=TENTHS, sync=TENTHS, share=SHARES)
def test_no_pace_beats_what_there_is_to_do(lead: float, rest: float, sync: float, share: float) -> None:
    step = WaveStep(lead, rest, sync, share)
    least = max(step.seconds, 2 * share * (lead + rest), 2 * sync)
    for pace in Pace:
        assert least * 0.98 <= pair_seconds(step, pace) <= 2 * step.seconds * 1.02


@checked
@given(rng=RANDOM, length=st.integers(1, 5), others=st.integers(0, 20), limit=st.integers(2, 400))
def test_a_verdict_lets_in_what_an_offset_is_found_for(
    rng: random.Random, length: int, others: int, limit: int
) -> None:
    """Two waves of the captured batch or a larger one, from the offset on that is found for them."""
    training, names = chain(length)
    ops = [(rng.choice((0, 3, 9)), rng.choice((0, 5)), 0) for _ in names[: length + 1]]
    ops += [(0, 0, rng.randint(0, sum(op[0] for op in ops) // length)) for _ in range(length)]
    memory = traced(names, step_of(ops, rng.randint(0, 9)))
    needs = pool_needs(training, memory, others)
    offsets = [count / length for count in range(length + 1)]
    starts = wave_starts(training, memory, offsets)
    marks = [start / memory.seconds for start in starts]
    assume([mark * memory.seconds for mark in marks] == [*starts])
    assume(room(limit, 1) > needs.fixed(1) and memory.profile.peak > memory.profile.resident)
    best = [judge_waves(needs, StepUse(0.5), limit, Pace.ROUNDS, [mark]).best for mark in marks]
    fitting = [offset for offset, choice in zip(offsets, best, strict=True) if choice.batch >= 1]
    try:
        assert fitting_offset(training, memory, limit, others) == fitting[0]
    except PlanError:
        assert not fitting
