"""A process of its own, with twice as many logical CPUs: trains in waves over half of them, and tells what it got.

python -m tests.numerics.waves.mirrored_job DEVICES OUT
"""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import tf_keras

import tfwave
from tests.numerics.corpus.sample import Array
from tests.numerics.replicas import mirrored
from tests.numerics.waves.waves import BETAS, EPSILON, MOMENTUM, RATE, batches, first_values
from tfwave.runtime.trace.memory import trace_memory
from tfwave.runtime.waves.options import WaveOptions
from tfwave.runtime.waves.rewritten import RewrittenStep
from tfwave.runtime.waves.step import trace_step

WAVES = 2
CALLS = 12
LOOP = 5
"""Batches of each wave in the loop whose second and third call are rests."""
TRACED = 24
"""Calls of which the times are noted."""

Batch = tuple[Array, ...]

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: keras.optimizers.SGD(RATE),
    "momentum": lambda: keras.optimizers.SGD(RATE, momentum=MOMENTUM),
    "adam": lambda: keras.optimizers.Adam(RATE, *BETAS, epsilon=EPSILON),
    "applied adam": lambda: tf_keras.optimizers.legacy.Adam(RATE, *BETAS, EPSILON),
}
"""The last one updates by one op, the others assign."""


def main(devices: int, out: Path) -> None:
    """Write to a folder what each training gave."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    logical = [tf.config.LogicalDeviceConfiguration()] * (2 * devices)
    tf.config.set_logical_device_configuration(cpu, logical)
    tf.config.experimental.enable_op_determinism()
    for average in ("batch", "wave"):
        for optimizer in OPTIMIZERS:
            _train_dense(replicas(devices), optimizer, average, out / f"{average} {optimizer}.npz")
        _train_in_loop(replicas(devices), average, out / f"{average} loop.npz")
    _train_layers(devices, out)
    _trace(devices, out / "trace.json")


def replicas(devices: int) -> Any:
    """A strategy over the first logical CPUs."""
    return mirrored(*(f"/device:CPU:{i}" for i in range(devices)))


def dense(
    strategy: Any, optimizer: str, inner: Callable[..., Any] | None = None
) -> tuple[dict[str, Any], Any]:
    """The weights and the step of the model of `tests.numerics.waves.waves`; `inner` wraps what a replica does."""
    with strategy.scope():
        chosen = OPTIMIZERS[optimizer]()
        applied = isinstance(chosen, tf_keras.optimizers.legacy.Optimizer)
        make: Any = tf.Variable if applied else keras.Variable
        weights = {n: make(v, dtype="float64", name=n) for n, v in first_values().items()}
        if not applied:
            chosen.build(list(weights.values()))

    def replica(inputs: Any, wanted: Any) -> Any:
        with tf.GradientTape() as tape:
            hidden = tf.tanh(inputs @ weights["w1"] + weights["b1"])
            error = hidden @ weights["w2"] + weights["b2"] - wanted
            loss = tf.reduce_mean(tf.square(error)) / strategy.num_replicas_in_sync
        sources = [w if applied else w.value for w in weights.values()]
        chosen.apply_gradients(list(zip(tape.gradient(loss, sources), weights.values(), strict=True)))
        return loss

    run = inner(replica) if inner else replica

    @tf.function
    def step(batch: Any) -> Any:
        return strategy.reduce("SUM", strategy.run(run, args=batch), axis=None)

    return {n: w if applied else w.value for n, w in weights.items()}, step


def _train_dense(strategy: Any, optimizer: str, average: Any, out: Path) -> None:
    left = out.with_suffix(".report")
    strategy = tfwave.distribute.wrap(strategy, waves=WAVES, average=average, report_dir=left)
    weights, step = dense(strategy, optimizer)
    train = tfwave.distribute.in_waves(step, strategy=strategy)
    losses: list[Any] = []
    values: list[dict[str, Array]] = []
    for call in calls(strategy, batches(CALLS * WAVES * strategy.num_replicas_in_sync)):
        losses.append([float(loss) for loss in train(*call)])
        values.append({name: local(strategy, w) for name, w in weights.items()})
    _save(out, values, losses=losses)


def _train_in_loop(strategy: Any, average: Any, out: Path) -> None:
    """A call, a rest of one batch, another of unlike batches, a call; the first weights again, and a call."""
    width = strategy.num_replicas_in_sync
    strategy = tfwave.distribute.wrap(strategy, waves=WAVES, average=average)
    weights, step = dense(strategy, "sgd", tf.function)
    train = tfwave.distribute.in_waves(step, strategy=strategy)
    given: list[Batch] = [*batches(LOOP * WAVES * width)]
    given[5 * width : 6 * width] = [cut(batch) for batch in given[5 * width : 6 * width]]
    first, [rest, _], *others = calls(strategy, given)
    losses: list[Any] = []
    values: list[dict[str, Array]] = []
    keys: list[list[int]] = []
    for call in (first, [rest], *others):
        if call is others[-1]:
            for name, value in first_values().items():
                weights[name].assign(value)
            train.begin_anew()
        before = _keys(strategy)
        losses.append([float(loss) for loss in train(*call)])
        keys.append([now - then for now, then in zip(_keys(strategy), before, strict=True)])
        values.append({name: local(strategy, w) for name, w in weights.items()})
    flat = [loss for call in losses for loss in call]
    _save(out, values, losses=flat, keys=keys)


def cut(batch: Batch) -> Batch:
    """The last batch of an epoch, which is smaller."""
    return tuple(part[:3] for part in batch)


def _save(out: Path, values: Sequence[dict[str, Array]], **others: Any) -> None:
    """Write the values of the weights after each call, and what else there is."""
    stacked: dict[str, Any] = {name: np.stack([v[name] for v in values]) for name in values[0]}
    np.savez(out, **others, **stacked)


def _keys(strategy: Any) -> list[int]:
    """How many instance keys each device has taken."""
    table = strategy.extended._collective_keys._instance_key_table
    return [key for by_device in table.values() for key in by_device.values()]


def calls(strategy: Any, given: Sequence[Batch], waves: int = WAVES) -> Iterator[list[Any]]:
    """The batches of each call, wave by wave; each is dealt out to the replicas."""
    width = strategy.num_replicas_in_sync
    dealt = [_dealt(strategy, given[i : i + width]) for i in range(0, len(given), width)]
    for i in range(0, len(dealt), waves):
        yield dealt[i : i + waves]


def _dealt(strategy: Any, given: Sequence[Batch]) -> Any:
    return strategy.experimental_distribute_values_from_function(
        lambda context: tuple(map(tf.constant, given[context.replica_id_in_sync_group]))
    )


def local(strategy: Any, variable: Any) -> Array:
    """What each replica has of a variable."""
    return np.stack([v.numpy() for v in strategy.experimental_local_results(variable)])


def layers(strategy: Any) -> tuple[Any, Any]:
    """A model with a batch norm for each replica, and its step, whose dropout draws from seeds that are fed."""
    with strategy.scope():
        tf_keras.utils.set_random_seed(1)
        model = tf_keras.Sequential(
            [
                tf_keras.layers.Dense(7, use_bias=False, dtype="float64", input_shape=(5,)),
                tf_keras.layers.BatchNormalization(momentum=7 / 8, dtype="float64"),
                tf_keras.layers.Dense(3, dtype="float64"),
            ]
        )
        optimizer = tf_keras.optimizers.SGD(RATE, momentum=MOMENTUM)
        optimizer.build(model.trainable_variables)

    def replica(inputs: Any, wanted: Any, seed: Any) -> Any:
        with tf.GradientTape() as tape:
            kept = tf.random.stateless_uniform(tf.shape(inputs), seed, dtype=tf.float64) < 0.75
            found = model(tf.where(kept, inputs / 0.75, 0.0), training=True)
            loss = tf.reduce_mean(tf.square(found - wanted)) / strategy.num_replicas_in_sync
        weights = model.trainable_variables
        optimizer.apply_gradients(list(zip(tape.gradient(loss, weights), weights, strict=True)))
        return loss

    @tf.function
    def step(batch: Any) -> Any:
        return strategy.reduce("SUM", strategy.run(replica, args=batch), axis=None)

    return model, step


def _train_layers(devices: int, out: Path) -> None:
    """In waves, and by as many replicas at once as there are waves and devices."""
    seeded = [(*b, np.array([3, i])) for i, b in enumerate(batches(CALLS * WAVES * devices))]
    strategy = tfwave.distribute.wrap(replicas(devices), waves=WAVES, average="batch")
    model, step = layers(strategy)
    train = tfwave.distribute.in_waves(step, strategy=strategy)
    losses = [np.mean([float(loss) for loss in train(*call)]) for call in calls(strategy, seeded)]
    _save_layers(out / "in waves.npz", strategy, model, losses)
    strategy = replicas(WAVES * devices)
    model, step = layers(strategy)
    losses = [float(step(batch)) for [batch] in calls(strategy, seeded, 1)]
    _save_layers(out / "at once.npz", strategy, model, losses)


def _save_layers(out: Path, strategy: Any, model: Any, losses: Sequence[Any]) -> None:
    weights = [local(strategy, w) for w in model.trainable_variables]
    moving = [local(strategy, w) for w in model.non_trainable_variables]
    named: dict[str, Any] = {f"weight{i}": w for i, w in enumerate(weights)}
    named |= {f"moving{i}": m for i, m in enumerate(moving)}
    np.savez(out, losses=losses, **named)


def _trace(devices: int, out: Path) -> None:
    """When each op of some calls ran, and the graph that they ran; and what is said to an iterator."""
    strategy = tfwave.distribute.wrap(replicas(devices), waves=WAVES, average="batch")
    _, step = dense(strategy, "adam")
    train = tfwave.distribute.in_waves(step, strategy=strategy)
    given = list(calls(strategy, batches((TRACED + 1) * WAVES * devices)))
    train(*given[0])
    _, trace = trace_memory(lambda: [[float(loss) for loss in train(*call)] for call in given[1:]])
    rewritten = RewrittenStep(trace_step(step, (given[0][0],)), WaveOptions(WAVES, "batch"))
    told = {
        "refused": _refusal(strategy),
        "runs": [asdict(run) for run in trace.ops],
        "graph": rewritten.item.graph.SerializeToString().hex(),
    }
    out.write_text(json.dumps(told))


def _refusal(strategy: Any) -> str:
    """What is said to a step that draws batches itself."""
    width = strategy.num_replicas_in_sync
    dataset = tf.data.Dataset.range(8 * width).batch(width, drop_remainder=True)
    train = tfwave.distribute.in_waves(lambda i: strategy.run(tf.square, args=(next(i),)), strategy=strategy)
    try:
        train(iter(strategy.experimental_distribute_dataset(dataset)))
    except tfwave.TfwaveError as err:
        return str(err)
    return ""


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
