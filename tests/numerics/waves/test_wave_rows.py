"""Gradients of single rows in waves: averaged with the wave before, across devices, of any number, in halves."""

from dataclasses import replace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from grappler_passes.tick_tock import TickTock
from grappler_passes.tick_tock_partitions import TickTockPartitions
from tests.numerics.training_graphs import Training
from tests.numerics.waves.test_wave_updates import check_equal
from tests.numerics.waves.update_steps import (
    EPSILON,
    HALF,
    RATE,
    STEPS,
    WIDTH,
    WORDS,
    Values,
    batches,
    joined,
    v1_step,
)
from tests.numerics.waves.waves import run_waves
from tests.rewrites import graph_bytes
from tfwave.errors import EnforcerError, PassError
from tfwave.graph.item import GraphItem
from tfwave.proto.tensorflow_pb2 import GraphDef
from tfwave.runtime.waves.function import WaveFunction
from tfwave.runtime.waves.options import WaveOptions
from tfwave.runtime.waves.state import WaveState
from tfwave.runtime.waves.step import TracedStep, trace_step

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(300)]


def run(training: Training, graph: GraphItem, *, grappler: bool) -> list[Values]:
    """The variables of both waves after each of three calls."""
    calls = [
        [dict(zip(training.feeds, half, strict=True)) for half in pair] for pair in batches("embedding", 3)
    ]
    states = [waves for waves, _ in run_waves(training, graph_bytes(graph), calls, grappler=grappler)]
    return [wave.variables for waves in states for wave in waves]


@pytest.mark.parametrize("optimizer", ["descent", "adam", "adagrad"])
def test_rows_are_averaged_with_the_wave_before_as_whole_gradients_are(optimizer: str) -> None:
    """With these three a row that no sample took is left alone, or decays as in a dense gradient."""
    rows, whole = v1_step(optimizer, "embedding", HALF), v1_step(optimizer, "dense rows", HALF)
    found = run(rows, TickTock()(rows.item).item, grappler=True)
    wanted = run(whole, TickTock()(whole.item).item, grappler=False)
    for one, other in zip(found, wanted, strict=True):
        check_equal(one, other)


def on_two_devices(training: Training) -> GraphItem:
    """The table on one device, what comes after it on another."""
    graph = GraphDef()
    graph.CopyFrom(training.item.graph)
    for node in graph.node:
        of_table = "table" in node.name or "embedding" in node.name
        node.device = f"/device:CPU:{0 if of_table else 1}"
    return replace(training.item, graph=graph)


def test_rows_of_a_partition() -> None:
    waves, whole = v1_step("adam", "embedding", HALF), v1_step("adam", "embedding", 2 * HALF)
    *_, found, _ = run(waves, TickTockPartitions()(on_two_devices(waves)).item, grappler=True)
    large = [[dict(zip(whole.feeds, joined(pair), strict=True))] for pair in batches("embedding", 3)]
    *_, (wanted, _) = run_waves(whole, whole.graph, large, grappler=False)
    check_equal(found, wanted[0].variables)


class Trained:
    """A model of words with its optimizer, and a step of it."""

    def __init__(self, library: Any, optimizer: Any, policy: Any = None) -> None:
        library.utils.set_random_seed(5)
        layers = library.layers
        table, last = layers.Embedding(WORDS, WIDTH, dtype=policy), layers.Dense(2, dtype=policy)
        self.model = library.Sequential(
            [library.Input((STEPS,), dtype="int64"), table, layers.Flatten(), last]
        )
        self.optimizer = optimizer

    def gradients(self, words: Any, wanted: Any, *, dense: bool = False) -> list[Any]:
        with tf.GradientTape() as tape:
            outputs = tf.cast(self.model(words, training=True), wanted.dtype)
            loss = tf.reduce_mean(tf.square(outputs - wanted))
            scaled = loss if not hasattr(self.optimizer, "scale_loss") else self.optimizer.scale_loss(loss)
        found: Any = tape.gradient(scaled, self.model.trainable_variables)
        return [tf.convert_to_tensor(gradient) for gradient in found] if dense else found

    def update(self, gradients: list[Any]) -> None:
        self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables, strict=True))

    def traced(self, count: int | None, *, dense: bool = False, **options: Any) -> TracedStep:
        def step(words: Any, wanted: Any) -> None:
            self.update(self.gradients(words, wanted, dense=dense))

        self.optimizer.build(self.model.trainable_variables)
        specs = tf.TensorSpec([count, STEPS], tf.int64), tf.TensorSpec([count, 2], tf.float64)
        return trace_step(tf.function(step, **options), specs)

    def waves(self, count: int | None, average: str, **options: Any) -> WaveFunction:
        return WaveFunction(self.traced(count, **options), WaveOptions(2, average), WaveState())

    @property
    def values(self) -> Values:
        found = [*self.model.weights, *self.optimizer.variables]
        return {f"{number} {v.name}": np.asarray(v, float) for number, v in enumerate(found)}


def constants(pair: Any) -> list[tuple[Any, ...]]:
    return [tuple(map(tf.constant, half)) for half in pair]


def test_batches_of_any_size_have_rows_of_any_number(all_doubles: None) -> None:
    rows, whole = (Trained(tf_keras, tf_keras.optimizers.Adagrad(RATE)) for _ in range(2))
    functions = [rows.waves(None, "wave"), whole.waves(None, "wave", dense=True)]
    for size, (first, second) in zip((6, 2, 4), batches("embedding", 3), strict=True):
        for function in functions:
            function([tuple(tf.constant(of[:size]) for of in first), *constants([second])])
    check_equal(rows.values, whole.values)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_gradients_of_half_floats_are_averaged_as_they_are_in_one_step(
    policy: str, all_doubles: None
) -> None:
    """Bit for bit: their average is one of weights, in whole floats."""
    policies = [keras.DTypePolicy(policy) for _ in range(2)]
    waves, single = (Trained(keras, keras.optimizers.Adam(RATE, epsilon=EPSILON), p) for p in policies)
    function = waves.waves(HALF, "batch")

    @tf.function
    def both(first: Any, second: Any) -> None:
        (table, *rest), (other, *others) = single.gradients(*first), single.gradients(*second)
        values = tf.concat([table.values, other.values], 0) / 2
        joint = tf.IndexedSlices(values, tf.concat([table.indices, other.indices], 0), table.dense_shape)
        single.update([joint, *((one + two) / 2 for one, two in zip(rest, others, strict=True))])

    single.optimizer.build(single.model.trainable_variables)
    for pair in batches("embedding", 3):
        function(constants(pair))
        both(*constants(pair))
    for (name, value), other in zip(single.values.items(), waves.values.values(), strict=True):
        assert np.array_equal(value, other), name


OF_BRANCHES = {
    "accumulated": lambda: keras.optimizers.Adam(RATE, epsilon=EPSILON, gradient_accumulation_steps=2),
    "scaled": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(RATE), initial_scale=2.0**126),
}
"""What does not update in each step."""


@pytest.mark.parametrize("case", OF_BRANCHES)
def test_whole_gradients_are_averaged_in_branches_and_rows_refused_by_name(
    case: str, all_doubles: None
) -> None:
    with pytest.raises(PassError, match=r"node '.*cond' \(If\) .* make those of single rows dense"):
        Trained(keras, OF_BRANCHES[case]()).waves(HALF, "batch")
    waves, whole = (Trained(keras, OF_BRANCHES[case]()) for _ in range(2))
    function, step = waves.waves(HALF, "batch", dense=True), whole.traced(2 * HALF, dense=True)
    pairs = batches("embedding", 3)
    if case == "scaled":
        pairs[0][1][1][0, 0] = 1e300  # overflows in one wave: no wave updates, and the scale is halved
    for pair in pairs:
        function(constants(pair))
        step(tuple(map(tf.constant, joined(pair))))
    check_equal(waves.values, whole.values)
    if case == "scaled":
        assert float(waves.optimizer.dynamic_scale) == 2.0**125


def test_a_step_that_xla_compiles_is_refused_by_name(all_doubles: None) -> None:
    trained = Trained(keras, keras.optimizers.SGD(RATE))
    with pytest.raises(EnforcerError, match="XLA is to compile the step 'step'"):
        trained.waves(HALF, "batch", jit_compile=True)
