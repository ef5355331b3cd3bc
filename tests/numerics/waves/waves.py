"""A small dense model, as TensorFlow trains it in waves, and as NumPy does."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from tests.numerics.corpus.places import CPUS
from tests.numerics.corpus.sample import Array
from tests.numerics.training_graphs import Training, closed
from tfwave.rewrite.waves.names import SCOPE, wave_name

v1 = tf.compat.v1
BATCH, WIDTHS = 8, (5, 7, 3)
RATE, MOMENTUM, BETAS, EPSILON = 1 / 64, 7 / 8, (7 / 8, 63 / 64), 2.0**-20
"""Exact in single precision, in which TensorFlow's optimizers take them."""

Values = dict[str, Array]


def first_values() -> Values:
    draw = np.random.default_rng(7)
    return {
        "w1": draw.standard_normal(WIDTHS[:2]) * 0.4,
        "b1": draw.standard_normal(WIDTHS[1:2]) * 0.1,
        "w2": draw.standard_normal(WIDTHS[1:]) * 0.4,
        "b2": draw.standard_normal(WIDTHS[2:]) * 0.1,
    }


def batches(count: int) -> list[tuple[Array, Array]]:
    draw = np.random.default_rng(11)
    shapes = ([BATCH, WIDTHS[0]], [BATCH, WIDTHS[2]])
    return [(draw.standard_normal(shapes[0]), draw.standard_normal(shapes[1])) for _ in range(count)]


def gradient_of(values: Values, inputs: Array, wanted: Array) -> Values:
    """Of the mean square of the error of tanh(x w1 + b1) w2 + b2, by hand."""
    hidden = np.tanh(inputs @ values["w1"] + values["b1"])
    error = 2 * (hidden @ values["w2"] + values["b2"] - wanted) / wanted.size
    inner = (error @ values["w2"].T) * (1 - hidden**2)
    return {"w1": inputs.T @ inner, "b1": inner.sum(0), "w2": hidden.T @ error, "b2": error.sum(0)}


class Replica:
    """One copy of the model with its optimizer, in NumPy."""

    def __init__(self, optimizer: str, values: Values | None = None) -> None:
        self.values = first_values() if values is None else values
        self.slots = {name: [np.zeros_like(v), np.zeros_like(v)] for name, v in self.values.items()}
        self.optimizer = optimizer
        self.updates = 0

    def update(self, gradients: Values) -> None:
        self.updates += 1
        for name, gradient in gradients.items():
            self.values[name] = self.values[name] - getattr(self, f"_{self.optimizer}")(name, gradient)

    def _sgd(self, name: str, gradient: Array) -> Array:
        return RATE * gradient

    def _momentum(self, name: str, gradient: Array) -> Array:
        slot = self.slots[name]
        slot[0] = MOMENTUM * slot[0] + gradient
        return RATE * slot[0]

    def _adam(self, name: str, gradient: Array) -> Array:
        slot = self.slots[name]
        slot[0] = BETAS[0] * slot[0] + (1 - BETAS[0]) * gradient
        slot[1] = BETAS[1] * slot[1] + (1 - BETAS[1]) * gradient**2
        rate = RATE * np.sqrt(1 - BETAS[1] ** self.updates) / (1 - BETAS[0] ** self.updates)
        return rate * slot[0] / (np.sqrt(slot[1]) + EPSILON)


def mean(gradients: Sequence[Values]) -> Values:
    return {name: sum(g[name] for g in gradients) / len(gradients) for name in gradients[0]}


def assigned_adam(pairs: Sequence[tuple[Any, Any]]) -> Any:
    """Adam that assigns to variables of its own, as Keras 3 does."""
    count = v1.get_variable("iterations", initializer=np.float64(0), use_resource=True, trainable=False)
    now = count.read_value() + 1
    rate = RATE * tf.sqrt(1 - BETAS[1] ** now) / (1 - BETAS[0] ** now)
    updates = []
    for gradient, weight in pairs:
        name = weight.op.name
        first, second = (
            v1.get_variable(
                f"{name}_{kind}", initializer=np.zeros(weight.shape), use_resource=True, trainable=False
            )
            for kind in ("first", "second")
        )
        moved = [
            first.assign_add((gradient - first) * (1 - BETAS[0]), read_value=False),
            second.assign_add((tf.square(gradient) - second) * (1 - BETAS[1]), read_value=False),
        ]
        with tf.control_dependencies(moved):
            step = rate * first.read_value() / (tf.sqrt(second.read_value()) + EPSILON)
            updates.append(weight.assign_sub(step, read_value=False))
    with tf.control_dependencies(updates):
        return count.assign_add(1.0, read_value=False)


def _applied(make: Callable[[], Any]) -> Callable[[Sequence[tuple[Any, Any]]], Any]:
    return lambda pairs: make().apply_gradients(pairs)


OPTIMIZERS: Mapping[str, tuple[str, Callable[[Sequence[tuple[Any, Any]]], Any]]] = {
    "sgd": ("sgd", _applied(lambda: v1.train.GradientDescentOptimizer(RATE))),
    "momentum": ("momentum", _applied(lambda: v1.train.MomentumOptimizer(RATE, MOMENTUM))),
    "adam": ("adam", _applied(lambda: v1.train.AdamOptimizer(RATE, *BETAS, EPSILON))),
    "assigned adam": ("adam", assigned_adam),
}
"""What NumPy runs, and how TensorFlow does."""


def dense(optimizer: str) -> Training:
    """The training step in TensorFlow, in double precision."""
    with tf.Graph().as_default() as graph:
        inputs = v1.placeholder(tf.float64, [BATCH, WIDTHS[0]], name="inputs")
        wanted = v1.placeholder(tf.float64, [BATCH, WIDTHS[2]], name="wanted")
        w = {n: v1.get_variable(n, initializer=v, use_resource=True) for n, v in first_values().items()}
        hidden = tf.tanh(inputs @ w["w1"] + w["b1"])
        loss = tf.reduce_mean(tf.square(hidden @ w["w2"] + w["b2"] - wanted), name="loss")
        gradients = tf.gradients(loss, list(w.values()))
        train = OPTIMIZERS[optimizer][1](list(zip(gradients, w.values(), strict=True)))
        return closed(graph, [inputs.name, wanted.name], [loss], train)


@dataclass(frozen=True)
class WaveState:
    """Of one wave after a call: what it fetched, and its variables by the names of those of wave 0."""

    fetched: list[Array]
    variables: Values


def run_waves(
    training: Training,
    graph: bytes,
    calls: Sequence[Sequence[Mapping[str, Array]]],
    *,
    grappler: bool,
    cpus: int = CPUS,
) -> Iterator[tuple[list[WaveState], Any]]:
    """Each call's waves and run metadata; `calls` has what each wave is fed in each call."""
    with tf.Graph().as_default() as imported:
        tf.graph_util.import_graph_def(v1.GraphDef.FromString(graph), name="")
        reads = [_reads(imported, wave) for wave in range(len(calls[0]))]
    config = v1.ConfigProto(device_count={"CPU": cpus}, inter_op_parallelism_threads=4)
    config.use_per_session_threads = True
    config.graph_options.rewrite_options.disable_meta_optimizer = not grappler
    session = v1.Session(graph=imported, config=config)
    try:
        session.run(training.init)
        for fed in calls:
            got, metadata = _call(session, training, fed)
            values = session.run(reads)
            yield [WaveState(g, v) for g, v in zip(got, values, strict=True)], metadata
    finally:
        session.close()


def _call(session: Any, training: Training, fed: Sequence[Mapping[str, Array]]) -> tuple[Any, Any]:
    given = {wave_name(n, wave): v for wave, feeds in enumerate(fed) for n, v in feeds.items()}
    fetches = [[wave_name(n, wave) for n in training.fetches] for wave in range(len(fed))]
    targets = [wave_name(training.target, wave) for wave in range(len(fed))]
    options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE)
    metadata = v1.RunMetadata()
    return session.run([fetches, targets], given, options, metadata)[0], metadata


def _reads(graph: Any, wave: int) -> dict[str, Any]:
    """What reads each variable of a wave; those that waves share are the same for all."""
    handles = [op.name for op in graph.get_operations() if op.type == "VarHandleOp" and SCOPE not in op.name]
    found: dict[str, Any] = {}
    for name in handles:
        try:
            handle = graph.get_operation_by_name(wave_name(name, wave))
        except KeyError:
            handle = graph.get_operation_by_name(name)
        with tf.device(handle.device):
            found[name] = tf.raw_ops.ReadVariableOp(
                resource=handle.outputs[0], dtype=handle.get_attr("dtype")
            )
    return found
