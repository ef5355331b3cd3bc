"""One step's memory over itself, instant by instant; and pairs of steps against what can be said on paper."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.waves import random_step
from tfwave.memory.step import StepMemory
from tfwave.waves.overlap import paused, share_above_half, two_wave_peaks
from tfwave.waves.pair import Pace, WaveStep, pair_seconds

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


def lengths(memory: StepMemory) -> list[float]:
    return [end - begin for begin, end in zip(memory.begins, memory.ends, strict=True)]


@checked
@given(rng=RANDOM, offset=st.integers(0, 30))
def test_the_peak_is_the_highest_of_all_instants(rng: random.Random, offset: int) -> None:
    """Times are integers, so halves see each instant and what lies between."""
    memory = random_step(rng)
    instants = [half / 2 for half in range(2 * int(memory.seconds + offset) + 5)]
    both = [curve_at(memory, now) + curve_at(memory, now - offset) for now in instants]
    assert two_wave_peaks(memory, [offset]) == (2 * memory.profile.resident + max(both),)


@checked
@given(rng=RANDOM, offset=st.integers(0, 30), spare=st.integers(1, 9))
def test_in_the_long_run_each_step_meets_the_other_waves_last_and_next(
    rng: random.Random, offset: int, spare: int
) -> None:
    memory = random_step(rng)
    period = int(memory.seconds) + spare
    late = offset % period
    both = [
        curve_at(memory, now) + curve_at(memory, (now - late) % period)
        for now in (half / 2 for half in range(2 * period))
    ]
    assert two_wave_peaks(memory, [offset], period) == (2 * memory.profile.resident + max(both),)


@checked
@given(rng=RANDOM)
def test_between_one_wave_and_two_at_once(rng: random.Random) -> None:
    memory = random_step(rng)
    alone, resident = memory.profile.peak, memory.profile.resident
    together, *later = two_wave_peaks(memory, [0, 1, 2, 5, memory.seconds + 1])
    assert together == 2 * alone
    assert all(alone + resident <= peak <= 2 * alone for peak in later)


@checked
@given(rng=RANDOM, at=st.integers(0, 20), stop=st.integers(0, 9))
def test_a_pause_moves_all_that_comes_later(rng: random.Random, at: int, stop: int) -> None:
    memory = random_step(rng)
    held = paused(memory, at, stop)
    assert held.profile.peak == memory.profile.peak
    for before, after in zip(memory.begins, held.begins, strict=True):
        assert after == before + (stop if before >= at else 0)
    assert lengths(held) == lengths(memory)


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
