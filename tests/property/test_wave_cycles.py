"""Cycle tables of all sizes, and how long iterations of them take."""

from itertools import pairwise

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfwave.cost.analytic import LinkModel
from tfwave.rewrite.waves.cycles import CycleTable, Direction, cycle_table
from tfwave.waves.count import device_peaks
from tfwave.waves.iteration import Machine, Partition, iteration_seconds

checked = settings(max_examples=50, deadline=None, database=None)
TABLES = st.integers(1, 9).flatmap(
    lambda count: st.builds(cycle_table, st.just(count), st.integers(1, count))
)
SECONDS = st.integers(0, 20).map(lambda quarters: quarters / 4)
BYTES = st.integers(0, 50)
PARTITIONS = st.builds(Partition, SECONDS, SECONDS, BYTES, BYTES, BYTES, BYTES, BYTES)


def passes(table: CycleTable) -> dict[tuple[int, int, Direction], int]:
    """The cycle of each (wave, partition, direction)."""
    return {(work.wave, work.partition, work.direction): work.cycle for work in table.works}


@checked
@given(table=TABLES)
def test_each_wave_passes_each_partition_once_each_way(table: CycleTable) -> None:
    found = passes(table)
    assert len(found) == len(table.works) == 2 * table.partitions * table.waves
    assert {wave for wave, _, _ in found} == set(range(table.waves))
    assert {partition for _, partition, _ in found} == set(range(table.partitions))


@checked
@given(table=TABLES)
def test_a_device_runs_one_thing_at_a_time(table: CycleTable) -> None:
    assert len({(work.cycle, work.device) for work in table.works}) == len(table.works)
    assert all(0 <= work.device < table.partitions for work in table.works)
    assert list(table.works) == sorted(table.works)
    assert table.works == tuple(sorted(work for d in range(table.partitions) for work in table.on(d)))


@checked
@given(table=TABLES)
def test_stages_keep_their_order(table: CycleTable) -> None:
    found = passes(table)
    for wave in range(table.waves):
        forward = [found[wave, p, Direction.FORWARD] for p in range(table.partitions)]
        backward = [found[wave, p, Direction.BACKWARD] for p in reversed(range(table.partitions))]
        cycles = [*forward, *backward]
        assert cycles == sorted(set(cycles))


@checked
@given(table=TABLES)
def test_a_batch_goes_back_where_its_activations_are(table: CycleTable) -> None:
    where = {(work.wave, work.partition, work.direction): work.device for work in table.works}
    for wave, partition, _ in where:
        forward = where[wave, partition, Direction.FORWARD]
        assert where[wave, partition, Direction.BACKWARD] == forward


@checked
@given(table=TABLES)
def test_each_device_shifts_partition_up_and_batch_down(table: CycleTable) -> None:
    """The paper's rule, in the forward cycles; with missing batches, where there are both."""
    count = table.partitions
    at = {(work.cycle, work.device): (work.partition, work.wave) for work in table.works}
    for (cycle, device), (partition, wave) in at.items():
        if cycle + 1 < count and (cycle + 1, device) in at:
            assert at[cycle + 1, device] == ((partition + 1) % count, (wave - 1) % count)
    assert all(at[0, wave] == (0, wave) for wave in range(table.waves))


@checked
@given(table=TABLES)
def test_all_reduce_comes_at_once_after_the_last_gradient(table: CycleTable) -> None:
    found = passes(table)
    assert len(table.all_reduces) == (table.partitions if table.waves > 1 else 0)
    for reduce in table.all_reduces:
        gradients = [found[wave, reduce.partition, Direction.BACKWARD] for wave in range(table.waves)]
        assert reduce.after == max(gradients)
        needs = min(found[wave, reduce.partition, Direction.FORWARD] for wave in range(table.waves))
        assert reduce.before == table.cycles + needs
        assert reduce.before - reduce.after == 1 + 2 * reduce.partition
        assert set(reduce.devices) == {w.device for w in table.works if w.partition == reduce.partition}
        assert list(reduce.devices) == sorted(set(reduce.devices))


@checked
@given(count=st.integers(1, 12))
def test_with_all_waves_no_device_ever_idles(count: int) -> None:
    table = cycle_table(count, count)
    assert {(work.cycle, work.device) for work in table.works} == {
        (cycle, device) for cycle in range(2 * count) for device in range(count)
    }


@checked
@given(table=TABLES)
def test_fewer_waves_idle_for_what_is_missing(table: CycleTable) -> None:
    assert len(table.works) == table.waves * table.cycles
    assert all(len(table.held_by(device)) == table.waves for device in range(table.partitions))


def longest_path(table: CycleTable, partitions: list[Partition], iterations: int) -> float:
    """When so many iterations are done, if nothing but the order of stages, devices and updates is waited for."""
    graph: nx.DiGraph = nx.DiGraph()
    for i in range(iterations):
        for work in table.works:
            graph.add_node(("begin", i, work))
            seconds = partitions[work.partition].seconds(work.direction)
            graph.add_edge(("begin", i, work), ("end", i, work), weight=seconds)
    for i in range(iterations):
        lines = [sorted(table.on(device)) for device in range(table.partitions)]
        lines += [sorted(w for w in table.works if w.wave == wave) for wave in range(table.waves)]
        for line in lines:
            for before, after in pairwise(line):
                graph.add_edge(("end", i, before), ("begin", i, after), weight=0)
            if i and line:
                graph.add_edge(("end", i - 1, line[-1]), ("begin", i, line[0]), weight=0)
        for update in [w for w in table.works if i and w.direction is Direction.BACKWARD]:
            for needs in table.works:
                if needs.partition == update.partition and needs.direction is Direction.FORWARD:
                    graph.add_edge(("end", i - 1, update), ("begin", i, needs), weight=0)
    return float(nx.dag_longest_path_length(graph))


@settings(max_examples=15, deadline=None, database=None)
@given(data=st.data())
def test_an_iteration_takes_its_longest_path(data: st.DataObject) -> None:
    """Free links and updates: a max-plus system, whose longest paths networkx finds."""
    table = data.draw(TABLES.filter(lambda t: t.partitions <= 4))
    partitions = data.draw(st.lists(PARTITIONS, min_size=table.partitions, max_size=table.partitions))
    expected = (longest_path(table, partitions, 6) - longest_path(table, partitions, 2)) / 4
    assert iteration_seconds(table, partitions, Machine()) == pytest.approx(expected)


@checked
@given(table=TABLES, forward=SECONDS, backward=SECONDS, switch=SECONDS)
def test_even_partitions_take_their_cycles(
    table: CycleTable, forward: float, backward: float, switch: float
) -> None:
    """A device turns to another partition from cycle to cycle, but where the direction turns."""
    even = [Partition(forward, backward)] * table.partitions
    seconds = table.partitions * (forward + backward)
    assert iteration_seconds(table, even, Machine()) == pytest.approx(seconds)
    if table.waves == table.partitions:
        seconds += 2 * (table.partitions - 1) * switch
        assert iteration_seconds(table, even, Machine(switch_seconds=switch)) == pytest.approx(seconds)


@checked
@given(table=TABLES, units=st.integers(1, 9), forward=SECONDS, backward=SECONDS)
def test_waves_share_compute_units(table: CycleTable, units: int, forward: float, backward: float) -> None:
    """All waves compute all the time: they are slowed by what they ask for beyond what there is."""
    even = [Partition(forward, backward)] * table.partitions
    slower = max(1.0, table.waves / units)
    found = iteration_seconds(table, even, Machine(compute_units=units))
    assert found == pytest.approx(slower * table.partitions * (forward + backward))


@checked
@given(data=st.data())
def test_links_make_nothing_faster(data: st.DataObject) -> None:
    table = data.draw(TABLES.filter(lambda t: t.partitions <= 5))
    partitions = data.draw(st.lists(PARTITIONS, min_size=table.partitions, max_size=table.partitions))
    free = iteration_seconds(table, partitions, Machine())
    assert free <= iteration_seconds(table, partitions, Machine(LinkModel(0.5, 10.0))) + 1e-9


@checked
@given(data=st.data())
def test_peaks_are_what_is_under_way(data: st.DataObject) -> None:
    """Cycle by cycle: what has passed forward and not yet backward."""
    table = data.draw(TABLES)
    partitions = data.draw(st.lists(PARTITIONS, min_size=table.partitions, max_size=table.partitions))
    for device, peak in enumerate(device_peaks(table, partitions)):
        works = table.on(device)
        held_all = sum(partitions[p].resident_bytes for p in {work.partition for work in works})
        peaks = [held_all]
        for now in works:
            began = {(w.wave, w.partition) for w in works if w.cycle <= now.cycle}
            done = {
                (w.wave, w.partition)
                for w in works
                if w.cycle < now.cycle and w.direction is Direction.BACKWARD
            }
            kept = sum(partitions[p].kept_bytes for _, p in began - done)
            peaks.append(held_all + kept + partitions[now.partition].scratch_bytes)
        assert peak == max(peaks)
