"""The cycle table as the paper prints it, and how many waves to run."""

from dataclasses import replace

import pytest

from tfwave.cost.analytic import LinkModel
from tfwave.errors import CostError, PlanError
from tfwave.memory.slots import room
from tfwave.rewrite.waves.cycles import AllReduce, cycle_table
from tfwave.waves.count import count_waves, device_peaks, most_waves, slowed_at_most
from tfwave.waves.iteration import Machine, Partition, iteration_seconds

EVEN = Partition(1.0, 2.0, resident_bytes=10, kept_bytes=40, scratch_bytes=5)


def printed(partitions: int, waves: int) -> list[str]:
    return [" ".join(cell or "." for cell in row) for row in cycle_table(partitions, waves).rows()]


def test_four_waves_on_four_devices_are_those_of_figure_10() -> None:
    assert printed(4, 4) == [
        "cycle device 0 device 1 device 2 device 3 then all-reduce",
        "0 F0,0 F0,1 F0,2 F0,3 .",
        "1 F1,3 F1,0 F1,1 F1,2 .",
        "2 F2,2 F2,3 F2,0 F2,1 .",
        "3 F3,1 F3,2 F3,3 F3,0 .",
        "4 B3,1 B3,2 B3,3 B3,0 3",
        "5 B2,2 B2,3 B2,0 B2,1 2",
        "6 B1,3 B1,0 B1,1 B1,2 1",
        "7 B0,0 B0,1 B0,2 B0,3 0",
    ]


def test_fewer_waves_leave_devices_idle() -> None:
    assert printed(3, 2)[1:] == [
        "0 F0,0 F0,1 - .",
        "1 - F1,0 F1,1 .",
        "2 F2,1 - F2,0 .",
        "3 B2,1 - B2,0 2",
        "4 - B1,0 B1,1 1",
        "5 B0,0 B0,1 - 0",
    ]
    assert cycle_table(3, 2).held_by(0) == (0, 2)


def test_one_wave_is_plain_model_parallelism() -> None:
    table = cycle_table(3, 1)
    assert printed(3, 1)[1:4] == ["0 F0,0 - - .", "1 - F1,0 - .", "2 - - F2,0 ."]
    assert table.all_reduces == ()
    assert len(table.works) == 6


def test_an_all_reduce_says_when_and_where() -> None:
    last, middle, first = cycle_table(3, 2).all_reduces
    assert last == AllReduce(2, after=3, before=8, devices=(0, 2))
    assert (middle.partition, middle.after, middle.before) == (1, 4, 7)
    assert (first.after, first.before) == (5, 6)


@pytest.mark.parametrize(("partitions", "waves"), [(4, 0), (4, 5), (1, 2)])
def test_waves_that_do_not_fit_are_refused(partitions: int, waves: int) -> None:
    with pytest.raises(PlanError, match=f"{waves} waves do not fit {partitions} partitions"):
        cycle_table(partitions, waves)


def test_no_partition_is_refused() -> None:
    with pytest.raises(PlanError, match="0 partitions make no model"):
        cycle_table(0, 1)


def test_a_device_holds_the_partitions_and_batches_that_pass_it() -> None:
    assert device_peaks(cycle_table(3, 1), [EVEN] * 3) == (55, 55, 55)
    assert device_peaks(cycle_table(3, 3), [EVEN] * 3) == (155, 155, 155)
    uneven = [EVEN, replace(EVEN, kept_bytes=100), EVEN]
    assert device_peaks(cycle_table(3, 1), uneven) == (55, 115, 55)


def test_as_many_waves_as_the_memory_holds() -> None:
    for waves, peak in ((1, 55), (2, 105), (3, 155)):
        limit = next(limit for limit in range(1000) if room(limit, 1) == peak)
        assert most_waves([EVEN] * 3, limit) == waves
        assert most_waves([EVEN] * 3, limit + 10) == waves


def test_a_wave_that_does_not_fit_is_refused() -> None:
    with pytest.raises(
        PlanError, match=r"one wave alone peaks at 55 bytes .* of the limit of 50 bytes, 49 bytes are"
    ):
        most_waves([EVEN] * 3, 50)


def test_waves_are_taken_away_until_tick_is_hardly_slowed() -> None:
    seconds = {1: 10.0, 2: 10.5, 3: 12.0, 4: 15.0}
    found = slowed_at_most(4, 0.06, seconds.__getitem__)
    assert (found.waves, found.most) == (2, 4)
    assert [waves for waves, _ in found.slowed] == [4, 3, 2]
    assert [slower for _, slower in found.slowed] == pytest.approx([0.5, 0.2, 0.05])
    assert slowed_at_most(4, 0.5, seconds.__getitem__).waves == 4
    assert slowed_at_most(4, 0.2, seconds.__getitem__).waves == 3
    assert slowed_at_most(4, 0.0, seconds.__getitem__).waves == 1


def test_a_step_without_time_is_not_slowed() -> None:
    assert slowed_at_most(3, 0.0, lambda _: 0.0).waves == 3


@pytest.mark.parametrize("share", [-0.1, float("nan")])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(PlanError, match="the tick wave may be slowed by"):
        slowed_at_most(3, share, lambda _: 1.0)


def test_no_wave_is_refused() -> None:
    with pytest.raises(PlanError, match="0 waves are none"):
        slowed_at_most(0, 0.1, lambda _: 1.0)


def test_waves_beyond_the_compute_units_slow_tick() -> None:
    """Four partitions on one machine of which a pass takes half."""
    found = count_waves([EVEN] * 4, Machine(compute_units=2), 10**6, 0.05)
    assert (found.waves, found.most) == (2, 4)
    assert [slower for _, slower in found.slowed] == pytest.approx([1.0, 0.5, 0.0])
    assert count_waves([EVEN] * 4, Machine(), 10**6, 0.0).waves == 4


def test_only_the_first_partitions_all_reduce_is_waited_for() -> None:
    """The others are done while backward goes on, unless they take longer than the cycles that are left."""
    machine = Machine(LinkModel(0.0, 1.0))
    partitions = [Partition(1.0, 1.0, gradient_bytes=size) for size in (2, 2)]
    assert iteration_seconds(cycle_table(2, 2), partitions, Machine()) == pytest.approx(4)
    # A ring of two sends half of the bytes twice: the last partition's 2 s begin with the last pass of 1 s.
    assert iteration_seconds(cycle_table(2, 2), partitions, machine) == pytest.approx(4 + 3)


def test_a_batch_is_sent_on_and_its_gradients_back() -> None:
    partitions = [Partition(1.0, 1.0, sent_bytes=3), Partition(1.0, 1.0, sent_bytes=99)]
    machine = Machine(LinkModel(0.5, 10.0))
    assert iteration_seconds(cycle_table(2, 1), partitions, machine) == pytest.approx(4 + 2 * 0.8)


def test_a_profile_for_each_partition() -> None:
    with pytest.raises(PlanError, match="1 profiles for 2 partitions"):
        iteration_seconds(cycle_table(2, 1), [EVEN], Machine())


def test_what_no_pass_can_take_is_refused() -> None:
    with pytest.raises(CostError, match="forward pass"):
        Partition(-1.0, 1.0)
    with pytest.raises(CostError, match="backward pass"):
        Partition(1.0, float("inf"))
    with pytest.raises(PlanError, match="kept_bytes of a partition is -1"):
        Partition(1.0, 1.0, kept_bytes=-1)
    with pytest.raises(CostError, match="switch"):
        Machine(switch_seconds=-1.0)
    with pytest.raises(PlanError, match=r"0.5 compute units do not run one pass"):
        Machine(compute_units=0.5)
