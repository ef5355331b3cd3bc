"""Random partitioned steps: devices keep to the cycle table, and updates follow the averages of all waves."""

import random
from itertools import pairwise

import networkx as nx
from hypothesis import given, settings
from hypothesis import strategies as st

from grappler_passes.tick_tock_partitions import TickTockPartitions, wave_name
from tests.parted import B, by_device, device, random_parted
from tests.rewrites import check_rewrite, edges

EXAMPLES = settings(max_examples=60, deadline=None, database=None, derandomize=True)
SEEDS = st.integers(0, 10**9)


@EXAMPLES
@given(SEEDS, st.data())
def test_each_device_keeps_to_the_table(seed: int, data: st.DataObject) -> None:
    model = random_parted(random.Random(seed))
    count = len(model.devices)
    waves = data.draw(st.integers(2, count))
    graph = check_rewrite(TickTockPartitions(waves), model.item).item.graph
    before = nx.transitive_closure_dag(edges(graph))
    places = {node.name: node.device for node in graph.node}
    for number, works in enumerate(by_device(count, waves)):
        cells = [{wave_name(name, wave) for name in model.cells[way, p]} for way, p, wave in works]
        assert {places[name] for cell in cells for name in cell} == {device(model.devices[number])}
        for cell, after in pairwise(cells):
            assert all(before.has_edge(one, other) for one in cell for other in after)


@EXAMPLES
@given(SEEDS)
def test_each_update_follows_the_gradients_of_all_waves_and_no_more_than_it_must(seed: int) -> None:
    model = random_parted(random.Random(seed))
    count = len(model.devices)
    found = edges(TickTockPartitions()(model.item).item.graph)
    is_clipped = "norm" in found
    for p in range(count):
        for wave in range(count):
            earlier = nx.ancestors(found, wave_name(f"update{p}", wave))
            for other in range(count):
                of_all = {(way, q): {wave_name(n, other) for n in c} for (way, q), c in model.cells.items()}
                assert of_all[B, p] <= earlier
                later = set[str]().union(*(of_all[B, q] for q in range(p)))
                assert is_clipped or later.isdisjoint(earlier)
