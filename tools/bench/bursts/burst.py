"""What the shards of a burst plan cost, and how long planning takes.

1. A step of a plan that has each layer on all devices, beside one of data parallelism that is written by hand: the
   same sums of the same numbers, on logical CPUs, in turn. Ops are those of the graphs that TensorFlow ran.
2. The planner's own time, with a limit for each layer, on 8 and on 1024 devices. Times of layers are made up: it
   takes as long with any.

    tools/bench/bursts/burst.py                             a minute, and a quiet machine
    tools/bench/bursts/burst.py --steps 2 --repeats 1       to see whether it works
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import keras
import tensorflow as tf
from tensorflow.python.eager import context  # pyright: ignore

from tfwave.burst.network import Network
from tfwave.burst.profile import Layer, Profile
from tfwave.burst.section import plan_layers
from tfwave.keras import burst
from tfwave.keras.bursts.nodes import nodes_of
from tfwave.plan.layers import LayerDevices, Layers
from tfwave.plan.plan import Plan
from tools.bench.cpu import cpu_seconds
from tools.bench.interleaved import run_interleaved

DEVICES, BATCH, CLASSES = 4, 32, 10
WARMUP_STEPS = 3
PLANNED = (8, 1024)
BOTTLENECKS = 37
"""Layers of a WideResNet-101-2, each bottleneck one."""

Step = Callable[[], Any]


def convolutions(width: int = 32, image: int = 32) -> Any:
    """Like VGG: all its layers treat each sample alone, as data parallelism by hand wants them."""
    layers: Any = keras.layers
    given = x = keras.Input((image, image, 3))
    for channels in (width, width, 2 * width, 2 * width):
        x = layers.Conv2D(channels, 3, padding="same", activation="relu")(x)
    x = layers.Dense(8 * width, "relu")(layers.Flatten()(layers.MaxPooling2D(4)(x)))
    return keras.Model(given, layers.Dense(CLASSES)(x))


def on_all(model: Any, devices: int, batch: int) -> Plan:
    """Each layer on all devices."""
    layers = tuple(LayerDevices(node.name, 0, devices) for node in nodes_of(model))
    return Plan(layers=Layers(devices=devices, batch=batch, limit=0.0, limit_of="layer", layers=layers))


def both(model: Any, devices: Sequence[str], batch: int) -> dict[str, Any]:
    """A step of each kind, which gives the loss and the gradients of a batch, on the first device."""
    inputs = tf.random.stateless_normal((batch, *model.input_shape[1:]), (1, 2))
    wanted = tf.constant([number % CLASSES for number in range(batch)])
    weights = [variable.value for variable in model.trainable_variables]
    plan = on_all(model, len(devices), batch)

    def planned() -> Any:
        with burst(model, plan, devices), tf.device(devices[0]):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(losses_of(model, inputs, wanted))
            return loss, tape.gradient(loss, weights)

    def by_hand() -> Any:
        with tf.device(devices[0]):
            read = [tf.convert_to_tensor(weight) for weight in weights]
        shards = zip(devices, tf.split(inputs, len(devices)), tf.split(wanted, len(devices)), strict=True)
        losses, gradients = zip(
            *(of_shard(model, read, len(devices), shard) for shard in shards), strict=True
        )
        with tf.device(devices[0]):
            return tf.add_n(losses), [tf.add_n(parts) for parts in zip(*gradients, strict=True)]

    made = {"by hand": by_hand, "plan": planned}
    return {kind: tf.function(step, autograph=False).get_concrete_function() for kind, step in made.items()}


def of_shard(model: Any, read: Sequence[Any], count: int, shard: tuple[str, Any, Any]) -> Any:
    """Loss and gradients of the samples of one of so many devices."""
    device, inputs, wanted = shard
    with tf.device(device):
        copies = [tf.identity(weight) for weight in read]
        mapping = list(zip(model.trainable_variables, copies, strict=True))
        with tf.GradientTape() as tape:
            tape.watch(copies)
            with keras.StatelessScope(mapping):
                loss = tf.reduce_mean(losses_of(model, inputs, wanted)) / count
        return loss, tape.gradient(loss, copies)


def losses_of(model: Any, inputs: Any, wanted: Any) -> Any:
    """Of each sample."""
    found = model(inputs, training=True)
    return keras.losses.sparse_categorical_crossentropy(wanted, found, from_logits=True)


def ops_of(step: Step) -> int:
    """How many ops TensorFlow ran, those that send and receive among them."""
    live: Any = context.context()
    live.enable_run_metadata()
    try:
        live.export_run_metadata()  # what ran before
        step()
        found = live.export_run_metadata()
    finally:
        live.disable_run_metadata()
    return sum(len(graph.node) for one in found.function_graphs for graph in one.partition_graphs)


def timed(step: Step, steps: int) -> list[float]:
    """Seconds of each."""
    times: list[float] = []
    for _ in range(steps):
        begin = time.perf_counter()
        step()[0].numpy()
        times.append(time.perf_counter() - begin)
    return times


def shards(steps: int, repeats: int) -> dict[str, object]:
    """Part 1."""
    devices = [device.name for device in tf.config.list_logical_devices("CPU")]
    kinds = both(convolutions(), devices, BATCH)
    ops = {kind: ops_of(step) for kind, step in kinds.items()}
    for step in kinds.values():
        timed(step, WARMUP_STEPS)
    blocks = run_interleaved({kind: lambda s=step: timed(s, steps) for kind, step in kinds.items()}, repeats)
    ratios = [
        statistics.median(plan) / statistics.median(hand)
        for plan, hand in zip(blocks["plan"], blocks["by hand"], strict=True)
    ]
    seconds = {
        kind: statistics.median(t for block in of_kind for t in block) for kind, of_kind in blocks.items()
    }
    ratio = [statistics.median(ratios), min(ratios), max(ratios)]
    return {"ops": ops, "seconds": seconds, "plan_over_by_hand": ratio}


def profiles() -> dict[str, Profile]:
    """Of models with as many layers, and branches, as the paper's."""
    chain = [(str(number), (str(number - 1),) if number else (), 1e6, 1e6) for number in range(BOTTLENECKS)]
    applications: Any = keras.applications
    return {
        "VGG16": made_up(layers_of(applications.VGG16(weights=None))),
        "WideResNet-101-2": made_up(chain),
        "InceptionV3": made_up(layers_of(applications.InceptionV3(weights=None))),
    }


Described = tuple[str, tuple[str, ...], float, float]
"""A layer's name, what it reads, and bytes of a sample's output and of its weights."""


def layers_of(model: Any) -> list[Described]:
    """Each layer of Keras one."""
    return [(node.name, node.reads, node.output_bytes, node.weight_bytes) for node in nodes_of(model)]


def made_up(described: Sequence[Described]) -> Profile:
    """With some times."""
    layers = [
        Layer(
            name=name,
            reads=reads,
            output_bytes=output,
            weight_bytes=weights,
            seconds={1 << power: 1e-4 + 1e-5 * (1 + number * 7 % 13) * (1 << power) for power in range(11)},
        )
        for number, (name, reads, output, weights) in enumerate(described)
    ]
    return Profile(model="made up", layers=tuple(layers))


def planning(repeats: int) -> dict[str, dict[str, float]]:
    """Part 2: the least CPU seconds, by model and devices."""
    found: dict[str, dict[str, float]] = {}
    for name, profile in profiles().items():
        found[name] = {}
        for devices in PLANNED:
            plan = partial(plan_layers, profile, devices, PLANNED[-1], Network(1.25e9, 5e-5), limit=2.0)
            found[name][f"{devices} devices"] = min(cpu_seconds(plan) for _ in range(repeats))
    return found


def main() -> None:
    """Measure, and say it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=20, help="of a block")
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * DEVICES)
    found = {"shards": shards(arguments.steps, arguments.repeats), "planning": planning(arguments.repeats)}
    print(json.dumps({"load": os.getloadavg(), **found}, indent=1))


if __name__ == "__main__":
    main()
