"""What is said of tick-tock before it runs."""

from typing import Any

import pytest

from tests.waves import rise_and_fall, step_of
from tfwave.errors import CostError, PlanError
from tfwave.memory.profile import OpMemory
from tfwave.memory.slots import room
from tfwave.waves import overlap
from tfwave.waves.needs import PoolNeeds
from tfwave.waves.overlap import share_above_half, two_wave_peaks, unpaced_peaks
from tfwave.waves.pair import Pace, WaveStep, pair_seconds
from tfwave.waves.verdict import MODEL_ERROR, StepUse, WaveVerdict, judge_waves

EVEN = rise_and_fall(20, 20)
"""Peaks at 400 bytes, half-way."""
EARLY = step_of([(40, 0, 0)] * 10 + [(0, 0, 38)] * 10 + [(0, 0, 0)] * 19 + [(0, 0, 20)])
"""Peaks at 400 bytes after a quarter of its time, and holds 20 from half-way on."""
LIMIT = 420


def judged(share: float, pace: Pace = Pace.STEADY, *, sync: float = 0.0, limit: int = LIMIT) -> WaveVerdict:
    return judge_waves(PoolNeeds(EARLY), StepUse(share, sync), limit, pace)


def test_two_waves_half_a_step_apart_fill_each_others_valley() -> None:
    together, half, in_turn = two_wave_peaks(EVEN, [0, 20, 40])
    assert (together, in_turn) == (800, 400)
    assert half == 400 + 20


def test_each_wave_holds_its_own_variables() -> None:
    assert two_wave_peaks(rise_and_fall(2, 2, resident=100), [4]) == (204,)


def test_what_outlives_the_step_is_held_on() -> None:
    memory = step_of([(10, 0, 0), (0, 0, 4)])
    assert two_wave_peaks(memory, [5]) == (16,)


@pytest.mark.parametrize("offset", [-1.0, float("nan"), float("inf")])
def test_an_offset_that_is_none_is_refused(offset: float) -> None:
    with pytest.raises(PlanError, match="the second wave starts"):
        two_wave_peaks(EVEN, [offset])


def test_time_above_half_of_the_peak() -> None:
    assert share_above_half(EVEN) == pytest.approx(20 / 40, abs=0.03)
    assert share_above_half(step_of([(10, 0, 0), (0, 0, 9), (0, 0, 1)])) == pytest.approx(2 / 3)


def test_a_memory_bound_step_gains() -> None:
    said = judged(0.3)
    assert said.is_gain
    assert said.best.offset == 0.5
    assert said.best.peak_bytes == 420
    assert said.best.batch == pytest.approx(room(LIMIT, 2) / 420)
    assert said.gang_batch == pytest.approx(room(LIMIT, 1) / 400)
    assert (said.peak_share, said.above_half) == pytest.approx((400 / 420, 11 / 40))
    waves, gang = said.best.batch, said.gang_batch
    expected = 2 * waves / (0.7 + 0.3 * waves) / (gang / (0.7 + 0.3 * gang))
    assert said.best.speedup == pytest.approx(expected)
    assert said.text == (
        f"gain expected: x{expected:.2f} over gang scheduling in the same memory ({said.low:.2f} to "
        f"{said.high:.2f}), tock 50% of a step after tick, two batches of {waves:.2f} for one of {gang:.2f}"
    )
    assert (said.low, said.high) == pytest.approx(
        (expected * (1 - MODEL_ERROR), expected * (1 + MODEL_ERROR))
    )


def test_all_that_the_pool_holds_counts_for_both_ways() -> None:
    """Others once, each wave's own resident bytes and two copies of gradients; the largest piece grows along."""
    ops = [(op.takes, op.scratch, op.gives) for op in EARLY.profile.ops]
    memory = step_of([(40, 8, 0), *ops[1:]], resident=30)
    needs = PoolNeeds(memory, others=7, gradient_bytes=5)
    limit = 1000
    said = judge_waves(needs, StepUse(0.3), limit, Pace.STEADY, [0.5])
    assert said.gang_batch == pytest.approx((room(limit, 1) - 30 - 7) / (400 + 8))
    assert said.best.batch == pytest.approx((room(limit, 2) - 60 - 7 - 10) / (400 + 20 + 8))
    assert said.best.peak_bytes == 400 + 20 + 60 + 7 + 10


def test_a_wave_can_be_held_up_at_its_worst() -> None:
    """Half a step after tick, tock's peak can meet all that tick holds from there on."""
    assert judge_waves(PoolNeeds(EVEN), StepUse(0.3), LIMIT, Pace.ROUNDS, [0.5]).best.peak_bytes == 800
    assert judge_waves(PoolNeeds(EVEN), StepUse(0.3), LIMIT, Pace.ROUNDS, [0.75]).best.peak_bytes == 600


def test_busy_cores_are_the_reason() -> None:
    said = judged(0.95)
    assert not said.is_gain
    assert said.text.startswith("tick-tock will not help: x1.0")
    assert said.text.endswith(" at best: one wave keeps 95% of the compute units busy")


def test_a_curve_without_a_valley_is_the_reason() -> None:
    flat = step_of([(400, 0, 0), *[(0, 0, 0)] * 30, (0, 0, 400)])
    said = judge_waves(PoolNeeds(flat), StepUse(0.05), LIMIT, Pace.STEADY)
    assert not said.is_gain
    assert "both peak at 2.00 times one" in said.text


def test_a_slow_exchange_is_the_reason() -> None:
    said = judged(0.3, sync=400.0)
    assert not said.is_gain
    assert said.text.endswith("the exchange of gradients takes 91% of a step, and each wave makes its own")


def test_the_end_of_the_round_is_the_reason() -> None:
    said = judge_waves(PoolNeeds(EARLY), StepUse(0.1), LIMIT, Pace.ROUNDS, [0.7])
    assert said.text.endswith("tick waits for tock at the end of each round")


def test_room_for_a_larger_batch_is_the_reason() -> None:
    said = judged(0.9, limit=4 * LIMIT)
    assert said.text.endswith("the step is not bound by memory: a batch 4.1 times as large fits")


def test_two_copies_of_the_variables_are_the_reason() -> None:
    needs = PoolNeeds(rise_and_fall(20, 20, resident=300), 5, 7)
    said = judge_waves(needs, StepUse(0.3), 630, Pace.STEADY)
    assert said.best.speedup == 0
    assert said.text.endswith("the limit does not hold what two waves hold whatever the batch, 619 bytes")


def test_rounds_end_with_tock() -> None:
    """Half of a step later, two steps take one and a half, not one."""
    step = WaveStep(1.0, 1.0, 0.0, 0.3)
    assert pair_seconds(step, Pace.ROUNDS) == pytest.approx(3)
    assert pair_seconds(step, Pace.STEADY) == pytest.approx(2)


@pytest.mark.parametrize("pace", list(Pace))
def test_waves_that_each_take_all_units_are_as_fast_as_in_turn(pace: Pace) -> None:
    assert pair_seconds(WaveStep(0.5, 0.5, 0.0, 1.0), pace) == pytest.approx(2, rel=1e-6)


def test_alternating_waves_wait_and_fit_no_better() -> None:
    """Backward takes three times as long as forward: tock is at its peak when tick's backward pass is done."""
    step = WaveStep(1.0, 3.0, 0.0, 0.1)
    assert pair_seconds(step, Pace.STEADY) == pytest.approx(4)
    assert pair_seconds(step, Pace.ALTERNATING) == pytest.approx(6)
    needs = PoolNeeds(rise_and_fall(10, 30))
    steady, alternating = (
        judge_waves(needs, StepUse(0.1), 320, pace, [0.25]).best for pace in (Pace.STEADY, Pace.ALTERNATING)
    )
    assert (steady.peak_bytes, alternating.peak_bytes) == (600, 600)
    assert alternating.speedup < steady.speedup


@pytest.mark.parametrize("offsets", [[], [1.5], [-0.1], [float("nan")]])
def test_offsets_outside_the_step_are_refused(offsets: list[float]) -> None:
    with pytest.raises(PlanError, match="tock can start at"):
        judge_waves(PoolNeeds(EVEN), StepUse(0.5), LIMIT, Pace.STEADY, offsets)


def test_a_step_that_takes_nothing_is_refused() -> None:
    with pytest.raises(PlanError, match="takes no time or no memory of its own"):
        judge_waves(PoolNeeds(step_of([(0, 0, 0)], resident=5)), StepUse(0.5), 100, Pace.STEADY)
    with pytest.raises(PlanError, match="takes no time or no memory of its own"):
        judge_waves(PoolNeeds(step_of([])), StepUse(0.5), 100, Pace.STEADY)


def test_a_limit_below_what_is_resident_is_refused() -> None:
    says = (
        "holds 400 bytes that are resident, and its pool 100 bytes besides, which leaves nothing of the limit"
    )
    with pytest.raises(PlanError, match=says):
        judge_waves(PoolNeeds(rise_and_fall(2, 2, resident=400), 100), StepUse(0.5), 500, Pace.STEADY)


@pytest.mark.parametrize("share", [0.0, -0.5, 1.1, float("nan")])
def test_a_share_of_the_compute_units_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(PlanError, match="of the compute units busy"):
        StepUse(share)
    with pytest.raises(PlanError, match="of the compute units busy"):
        WaveStep(1.0, 1.0, 0.0, share)


def test_seconds_that_are_none_are_refused() -> None:
    with pytest.raises(CostError, match="exchange of gradients"):
        StepUse(0.5, -1.0)
    with pytest.raises(CostError, match="a wave's step"):
        WaveStep(1.0, float("nan"), 0.0, 0.5)


def test_a_step_of_many_ops_is_judged_without_a_look_at_all_of_them_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = list[OpMemory]()
    most = OpMemory.most.fget
    assert most is not None

    def counted(op: OpMemory) -> int:
        asked.append(op)
        return most(op)

    monkeypatch.setattr(OpMemory, "most", property(counted))
    counts = list[int]()
    for count in (20, 80):
        asked.clear()
        judge_waves(PoolNeeds(rise_and_fall(count, count)), StepUse(0.3), count * count, Pace.STEADY)
        counts.append(len(asked))
    assert counts[1] <= 5 * counts[0]


def test_each_offset_is_tried_without_a_look_at_all_that_comes_later(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = list[int]()

    def counted(*values: Any) -> Any:
        found = list(values[0] if len(values) == 1 else values)
        compared.extend(found)
        return max(found)

    monkeypatch.setattr(overlap, "max", counted, raising=False)
    counts = list[int]()
    for count in (10, 40):
        compared.clear()
        peaks = unpaced_peaks(rise_and_fall(count, count), range(2 * count + 1))
        held = [min(count, 2 * count - offset) * count for offset in range(2 * count)]
        assert peaks == tuple(count * count + later for later in (*held, 0))
        counts.append(len(compared))
    assert counts[1] <= 5 * counts[0]
