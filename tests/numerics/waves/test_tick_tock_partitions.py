"""Waves of a partitioned model train as one batch after the other would, and devices keep to the cycle table."""

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from grappler_passes.tick_tock_partitions import TickTockPartitions
from tests.full import IS_FULL
from tests.numerics.corpus.sample import same_bits
from tests.numerics.training_graphs import Training
from tests.numerics.waves.partitioned import SCALE, batches, fed, first_values, gradient_of, partitioned
from tests.numerics.waves.waves import OPTIMIZERS, Replica, Values, WaveState, mean, run_waves
from tests.parted import F, by_device
from tests.rewrites import check_rewrite, graph_bytes

v1 = tf.compat.v1
pytestmark = pytest.mark.tensorflow

CALLS = 12
TOLERANCES = {"sgd": 1e-12, "momentum": 1e-12, "assigned adam": 1e-12, "adam": 1e-6}
"""Relative. AdamOptimizer keeps the powers of its betas in single precision."""
PASS = re.compile(r"(?:tick_tock/(?P<wave>\d)/)?(?P<back>gradients/)?layer(?P<partition>\d)/")
PASSING = {"MatMul", "AddV2", "Tanh", "TanhGrad", "Sum"}


def run(
    training: Training, count: int, waves: int, *, grappler: bool
) -> Iterator[tuple[list[WaveState], Any]]:
    graph = graph_bytes(check_rewrite(TickTockPartitions(waves), training.item).item)
    given = fed(training, batches(CALLS * waves))
    calls = [given[i : i + waves] for i in range(0, len(given), waves)]
    return run_waves(training, graph, calls, grappler=grappler, cpus=count)


def distance(found: Values, wanted: Values) -> float:
    """The greatest error of any weight, relative to its norm."""
    return max(
        float(np.linalg.norm(found[name] - values) / np.linalg.norm(values))
        for name, values in wanted.items()
    )


def check_trained(optimizer: str, count: int, waves: int, *, grappler: bool, scaled: bool = False) -> None:
    """Sequential training that updates by the mean gradient of each call's batches."""
    given = batches(CALLS * waves)
    scale = SCALE if scaled else 1.0
    replica = Replica(OPTIMIZERS[optimizer][0], first_values(count))
    ran = run(partitioned(optimizer, count, scaled=scaled), count, waves, grappler=grappler)
    for call, (states, _) in enumerate(ran):
        of_call = given[call * waves : (call + 1) * waves]
        replica.update(mean([gradient_of(replica.values, *batch, scale) for batch in of_call]))
        assert distance(states[0].variables, replica.values) <= TOLERANCES[optimizer]
        for one, other in pairwise(states):
            assert same_bits(list(one.variables.values()), list(other.variables.values()))
    assert distance(first_values(count), replica.values) > 1e-2


@pytest.mark.parametrize(
    ("count", "grappler"),
    [*product((2, 3, 4), (False, True))] if IS_FULL else [(2, True), (3, False), (4, True)],
)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_call_is_a_step_with_the_mean_gradient_of_its_batches(
    optimizer: str, count: int, grappler: bool
) -> None:
    check_trained(optimizer, count, count, grappler=grappler)


@pytest.mark.parametrize("waves", [2, 3])
def test_fewer_waves_than_partitions(waves: int) -> None:
    check_trained("momentum", 4, waves, grappler=True)


@pytest.mark.parametrize("grappler", [False, True])
def test_variables_that_the_step_does_not_change_are_read_where_they_are(grappler: bool) -> None:
    check_trained("sgd", 3, 3, grappler=grappler, scaled=True)


@pytest.mark.parametrize("grappler", [False, True])
@pytest.mark.parametrize(("count", "waves"), [(2, 2), (3, 3), (4, 4), (4, 2)])
def test_each_device_keeps_to_the_table(count: int, waves: int, grappler: bool) -> None:
    training = partitioned("adam", count)
    ops = {node.name: node.op for node in v1.GraphDef.FromString(training.graph).node}
    for _, metadata in run(training, count, waves, grappler=grappler):
        spans = passes(metadata, ops)
        for number, works in enumerate(by_device(count, waves)):
            ran = [spans[number, *work] for work in works]
            assert all(len(cell) >= (3 if work[0] == F else 2) for cell, work in zip(ran, works, strict=True))
            for before, after in pairwise(ran):
                assert max(end for _, end in before) <= min(begin for begin, _ in after)
        assert sum(len(cell) > 0 for cell in spans.values()) == 2 * count * waves


def passes(metadata: Any, ops: dict[str, str]) -> dict[tuple[int, str, int, int], list[tuple[int, int]]]:
    """When what passes a partition began and ended, by (device, direction, partition, wave), in nanoseconds."""
    found: dict[tuple[int, str, int, int], list[tuple[int, int]]] = defaultdict(list)
    for device in metadata.step_stats.dev_stats:
        for op in device.node_stats:
            one = PASS.match(op.node_name)
            name = op.node_name.removeprefix(f"tick_tock/{one['wave']}/") if one else ""
            if one and ops.get(name) in PASSING:
                work = ("B" if one["back"] else "F", int(one["partition"]), int(one["wave"] or 0))
                begin = op.all_start_nanos
                found[int(device.device[-1]), *work].append((begin, begin + op.op_end_rel_nanos))
    return found
