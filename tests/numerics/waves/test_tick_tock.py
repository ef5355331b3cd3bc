"""Waves of training steps compute what Wavelet's equations say, and begin when their gates open."""

from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from typing import Any

import networkx as nx
import numpy as np
import pytest
import tensorflow as tf

from grappler_passes.tick_tock import TickTock
from tests.full import IS_FULL, few_or
from tests.numerics.corpus.places import LOCAL
from tests.numerics.corpus.sample import Array, same_bits
from tests.numerics.training_graphs import Training, closed, random_training
from tests.numerics.waves.waves import (
    OPTIMIZERS,
    Replica,
    Values,
    WaveState,
    batches,
    dense,
    gradient_of,
    mean,
    run_waves,
)
from tests.rewrites import check_rewrite, graph_bytes
from tfwave.proto.tensorflow_pb2 import GraphDef
from tfwave.rewrite.waves.names import wave_name

v1 = tf.compat.v1
pytestmark = pytest.mark.tensorflow

CALLS = 50
TOLERANCES = {"sgd": 1e-12, "momentum": 1e-12, "assigned adam": 1e-12, "adam": 1e-6}
"""Relative. AdamOptimizer keeps the powers of its betas in single precision."""
WEIGHTS = ("w1", "b1", "w2", "b2")
PLAIN = (1, 2, 6, 7, 9, 10, 11, 15)
"""Seeds of steps that draw nothing and update no single rows."""
ROWS = ("ResourceSparse", "ResourceScatter")


def run_dense(
    optimizer: str, given: Sequence[tuple[Array, Array]], tick_tock: TickTock, *, grappler: bool = True
) -> Iterator[tuple[list[WaveState], Any]]:
    training = dense(optimizer)
    graph = graph_bytes(check_rewrite(tick_tock, training.item).item)
    fed = [dict(zip(training.feeds, batch, strict=True)) for batch in given]
    calls = [fed[i : i + tick_tock.waves] for i in range(0, len(fed), tick_tock.waves)]
    return run_waves(training, graph, calls, grappler=grappler)


def distance(found: Values, wanted: Values) -> float:
    """The greatest error of any weight matrix, relative to its norm."""
    return max(
        float(np.linalg.norm(found[name] - wanted[name]) / np.linalg.norm(wanted[name])) for name in WEIGHTS
    )


@pytest.mark.parametrize(
    ("waves", "grappler"), [*product((2, 3), (False, True))] if IS_FULL else [(2, True), (3, False)]
)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_average_of_waves_is_equation_1(optimizer: str, grappler: bool, waves: int) -> None:
    given = batches(CALLS * waves)
    replicas = [Replica(OPTIMIZERS[optimizer][0]) for _ in range(waves)]
    before: Values | None = None
    ran = run_dense(optimizer, given, TickTock(waves, offset=0.3), grappler=grappler)
    for call, (states, _) in enumerate(ran):
        for wave, (replica, state) in enumerate(zip(replicas, states, strict=True)):
            own = gradient_of(replica.values, *given[call * waves + wave])
            replica.update(mean([own, before or own]))
            before = own
            assert distance(state.variables, replica.values) <= TOLERANCES[optimizer]
    assert distance(replicas[0].values, replicas[1].values) > 1e-3


@pytest.mark.parametrize("grappler", [False, True])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_average_of_a_batch_is_that_of_replicas(optimizer: str, grappler: bool) -> None:
    waves = 3
    given = batches(CALLS * waves)
    replica = Replica(OPTIMIZERS[optimizer][0])
    ran = run_dense(optimizer, given, TickTock(waves, "batch"), grappler=grappler)
    for call, (states, _) in enumerate(ran):
        of_call = given[call * waves : (call + 1) * waves]
        replica.update(mean([gradient_of(replica.values, *batch) for batch in of_call]))
        assert distance(states[0].variables, replica.values) <= TOLERANCES[optimizer]
        for one, other in pairwise(states):
            assert same_bits(list(one.variables.values()), list(other.variables.values()))


def test_the_average_of_a_batch_is_one_large_batch() -> None:
    given = batches(CALLS * 2)
    replica = Replica("sgd")
    for call, (states, _) in enumerate(run_dense("sgd", given, TickTock(2, "batch"))):
        both = [np.concatenate(parts) for parts in zip(*given[2 * call : 2 * call + 2], strict=True)]
        replica.update(gradient_of(replica.values, *both))
        assert distance(states[0].variables, replica.values) <= 1e-12


def test_the_average_of_waves_is_not_one_large_batch() -> None:
    """The gradients of Eq. 1 are taken at different weights."""
    given = batches(CALLS * 2)
    in_waves, in_batches = (
        [states for states, _ in run_dense("sgd", given, TickTock(2, average))][-1]
        for average in ("wave", "batch")
    )
    assert distance(in_waves[0].variables, in_batches[0].variables) > 1e-3


@pytest.mark.parametrize("offset", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("grappler", [False, True])
def test_a_wave_begins_after_its_gate(grappler: bool, offset: float) -> None:
    waves = 3
    graph = TickTock(waves, offset=offset)(dense("adam").item).item.graph
    gates = {
        n.name: [text[1:] for text in n.input] for n in graph.node if n.name.startswith("tick_tock/gates")
    }
    passes = [forward_pass(graph, wave) for wave in range(waves)]
    ran = run_dense("adam", batches(20 * waves), TickTock(waves, offset=offset), grappler=grappler)
    for _, metadata in ran:
        begins, ends = spans(metadata)
        for wave in range(1, waves):
            ran_here = passes[wave] & begins.keys()
            assert len(ran_here) > 5
            first = min(begins[name] for name in ran_here)
            gate = f"tick_tock/gates/{wave}"
            assert all(ends[name] <= first for name in gates[gate] if name in ends)
            assert max(ends[name] for name in passes[wave - 1] & ends.keys()) <= first
            assert grappler or ends[gate] <= first


def forward_pass(graph: GraphDef, wave: int) -> set[str]:
    """What the loss of a wave takes, but for handles, constants and what is fed."""
    ops = {node.name: node.op for node in graph.node}
    edges = nx.DiGraph((t.partition(":")[0], n.name) for n in graph.node for t in n.input if t[0] != "^")
    loss = wave_name("loss", wave)
    return {
        n for n in (loss, *nx.ancestors(edges, loss)) if ops[n] not in ("VarHandleOp", "Const", "Placeholder")
    }


def spans(metadata: Any) -> tuple[dict[str, int], dict[str, int]]:
    """When each op of a traced call began and ended, in nanoseconds."""
    begins: dict[str, int] = {}
    ends: dict[str, int] = {}
    for device in metadata.step_stats.dev_stats:
        for op in device.node_stats:
            begins[op.node_name] = op.all_start_nanos
            ends[op.node_name] = op.all_start_nanos + op.op_end_rel_nanos
    return begins, ends


def test_a_new_beginning_forgets_the_last_gradient() -> None:
    """Initialised again, or restored, the first wave takes its own gradient alone."""
    training = dense("sgd")
    graph = graph_bytes(TickTock()(training.item).item)
    fed = [dict(zip(training.feeds, batch, strict=True)) for batch in batches(2)]
    first = next(run_waves(training, graph, [fed], grappler=True))[0]
    with tf.Graph().as_default() as imported:
        tf.graph_util.import_graph_def(v1.GraphDef.FromString(graph), name="")
    with v1.Session(graph=imported) as session:
        for _ in range(2):
            session.run(training.init)
            feeds = {wave_name(n, wave): v for wave in range(2) for n, v in fed[wave].items()}
            session.run([wave_name(training.target, wave) for wave in range(2)], feeds)
            assert same_bits(session.run(list(training.variables)), list(first[0].variables.values()))


def ops_of(training: Training) -> dict[str, Any]:
    return {node.name: node for node in v1.GraphDef.FromString(training.graph).node}


@pytest.mark.parametrize("towers", [1, 2])
@pytest.mark.parametrize("seed", range(0, 24, few_or(4, 2)))
def test_averaged_is_what_optimizers_take(seed: int, towers: int) -> None:
    """Whatever the layers, the clipping and the schedule; of tables of words the numbers of rows, too."""
    training = random_training(seed, LOCAL, towers=towers)
    nodes = ops_of(training)
    item = check_rewrite(TickTock(2, "batch"), training.item).item
    after = {node.name: node for node in item.graph.node}
    places = {"ResourceApplyGradientDescent": 2, "ResourceApplyMomentum": 3, "ResourceApplyAdam": 9}
    places["ResourceApplyKerasMomentum"] = 3
    of_rows = {"Unique": 0, "UnsortedSegmentSum": 0, "Mul": 0, "ResourceScatterAdd": 1}
    for name, node in nodes.items():
        known = {**places, **(of_rows if name.startswith("train/update_table/") else {})}
        changed = [i for i, text in enumerate(node.input) if after[name].input[i] != text]
        wanted = [known[node.op]] if node.op in known else []
        assert changed == wanted


def is_plain(training: Training) -> bool:
    """Does it draw nothing, and update no single rows?"""
    return not any(n.op.startswith(("Random", *ROWS)) for n in ops_of(training).values())


@pytest.mark.parametrize("waves", [2, 4])
@pytest.mark.parametrize("seed", PLAIN)
def test_waves_of_equal_batches_are_single_steps(seed: int, waves: int) -> None:
    """The mean of 2 or 4 equal gradients is that gradient, bit for bit."""
    training = random_training(seed, LOCAL)
    assert is_plain(training)
    fed = training.batches(4, seed)
    steps = run_waves(training, training.graph, [[one] for one in fed], grappler=False)
    item = check_rewrite(TickTock(waves, "batch", offset=seed % 3 / 2), training.item).item
    calls = run_waves(training, graph_bytes(item), [[one] * waves for one in fed], grappler=False)
    for ([single], _), (states, _) in zip(steps, calls, strict=True):
        for state in states:
            assert same_bits(single.fetched, state.fetched)
            assert same_bits(list(single.variables.values()), list(state.variables.values()))


def drawing() -> Training:
    """A step with noise from fixed seeds, that fetches the noise."""
    with tf.Graph().as_default() as graph:
        weight = v1.get_variable("weight", initializer=np.float32(1), use_resource=True)
        noise = v1.random_normal([3], seed=5)
        loss = tf.reduce_sum(tf.square(weight * noise))
        train = v1.train.GradientDescentOptimizer(0.01).minimize(loss)
        return closed(graph, [], [loss, noise], train)


@pytest.mark.parametrize("grappler", [False, True])
def test_each_wave_draws_a_sequence_of_its_own(grappler: bool) -> None:
    training = drawing()
    item = check_rewrite(TickTock(3), training.item).item
    fed: list[Any] = [{}, {}, {}]
    calls = [s for s, _ in run_waves(training, graph_bytes(item), [fed] * 4, grappler=grappler)]
    single = [s for s, _ in run_waves(training, training.graph, [[{}]] * 4, grappler=grappler)]
    drawn = [[state.fetched[1] for state in states] for states in calls]
    assert same_bits([waves[0] for waves in drawn], [state.fetched[1] for [state] in single])
    assert len({noise.tobytes() for waves in drawn for noise in waves}) == 12


def reducing() -> Training:
    """Two replicas, each with a weight on a device of its own, that all-reduce their gradients."""
    with tf.Graph().as_default() as graph:
        feeds, losses, trains = [], [], []
        for replica in range(2):
            with tf.device(f"/device:CPU:{replica}"):
                inputs = v1.placeholder(tf.float64, [4], name=f"inputs{replica}")
                weight = v1.get_variable(f"weight{replica}", initializer=np.float64(0.5), use_resource=True)
                loss = tf.reduce_mean(tf.square(weight * inputs - 1))
                reduced = tf.raw_ops.CollectiveReduceV2(
                    input=tf.gradients(loss, weight)[0],
                    group_size=2,
                    group_key=1,
                    instance_key=1,
                    ordering_token=[],
                    merge_op="Add",
                    final_op="Div",
                    timeout_seconds=30,
                )
                optimizer = v1.train.GradientDescentOptimizer(0.125)
                trains.append(optimizer.apply_gradients([(reduced, weight)]))
                feeds.append(inputs.name)
                losses.append(loss)
        return closed(graph, feeds, losses, tf.group(*trains))


@pytest.mark.parametrize("grappler", [False, True])
def test_waves_reduce_apart_from_each_other(grappler: bool) -> None:
    training = reducing()
    item = check_rewrite(TickTock(2), training.item).item
    draw = np.random.default_rng(3)
    fed = [[{name: draw.standard_normal(4) for name in training.feeds} for _ in range(2)] for _ in range(10)]
    weights, before = [0.5, 0.5], None
    for call, (states, _) in zip(
        fed, run_waves(training, graph_bytes(item), fed, grappler=grappler), strict=True
    ):
        for wave, (feeds, state) in enumerate(zip(call, states, strict=True)):
            own = np.mean([2 * np.mean((weights[wave] * x - 1) * x) for x in feeds.values()])
            weights[wave] -= 0.125 * (own + (own if before is None else before)) / 2
            before = own
            assert all(abs(v - weights[wave]) <= 1e-12 for v in state.variables.values())
