"""Model-parallel training on the cores of this machine: waves, a GPipe-like pipeline, and neither, measured.

Dense layers in as many partitions as there are logical CPUs, an op on one thread, as many threads as partitions: so
a core is a device. All modes train on the same number of samples a step and run in turn. Plain model parallelism
takes them as one batch; the pipeline cuts it into micro-batches, and updates when it has the gradients of all; each
wave of `tick_tock_partitions` takes its part of them. The peak is that of the pool in which all run.

    tools/bench/memory/model_parallel.py                               two partitions
    tools/bench/memory/model_parallel.py --samples 512 --repeats 2     to see whether it works
"""

import argparse
import json
import os
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from grappler_passes.tick_tock_partitions import TickTockPartitions
from tfwave.graph.item import GraphItem
from tfwave.proto.tensorflow_pb2 import GraphDef
from tfwave.rewrite.waves.names import wave_name
from tfwave.runtime.allocator import AllocatorSettings, set_up
from tools.bench.interleaved import run_interleaved

POOL_BYTES = 4 << 30
LOSS, TRAIN, RESET = "loss", "train", "reset"
LEARNING_RATE = 1e-3
MICRO = (2, 4, 8)
"""Micro-batches for each partition."""
WARMUP_STEPS = 2


@dataclass(frozen=True)
class Shape:
    """A model: partitions of so many square layers, and the samples of a step."""

    partitions: int
    layers: int
    width: int
    samples: int


@dataclass(frozen=True)
class Mode:
    """A session, and what a step of it fetches."""

    session: Any
    fetches: tuple[str, ...]
    tensorflow: Any

    def block(self, steps: int) -> tuple[list[float], int]:
        """Seconds of each step, and the pool's peak above what it held before."""
        memory = self.tensorflow.config.experimental
        memory.reset_memory_stats("CPU:0")
        held = memory.get_memory_info("CPU:0")["current"]
        seconds: list[float] = []
        for _ in range(steps):
            begin = time.perf_counter()
            self.session.run(self.fetches)
            seconds.append(time.perf_counter() - begin)
        return seconds, memory.get_memory_info("CPU:0")["peak"] - held


def training(tensorflow: Any, shape: Shape, samples: int, micro: int) -> GraphDef:
    """A step on so many samples, in micro-batches."""
    v1 = tensorflow.compat.v1
    with tensorflow.Graph().as_default() as graph:
        with tensorflow.device("/device:CPU:0"):
            drawn = tensorflow.random.stateless_uniform([samples, shape.width], seed=[7, 1])
            batches = tensorflow.split(drawn, micro) if micro > 1 else [drawn]
        weights = [_weights(tensorflow, shape, p) for p in range(shape.partitions)]
        losses = [_loss(tensorflow, weights, batch) for batch in batches]
        with tensorflow.device(f"/device:CPU:{shape.partitions - 1}"):
            loss = losses[0] if micro == 1 else tensorflow.add_n(losses) / micro
            tensorflow.identity(loss, name=LOSS)
        flat = [own for of_partition in weights for own in of_partition]
        optimizer = v1.train.GradientDescentOptimizer(LEARNING_RATE)
        given = v1.gradients(loss, flat, colocate_gradients_with_ops=True)
        optimizer.apply_gradients(zip(given, flat, strict=True), name=TRAIN)
        v1.group(v1.global_variables_initializer(), name=RESET)
        return GraphDef.FromString(graph.as_graph_def().SerializeToString())


def _weights(tensorflow: Any, shape: Shape, partition: int) -> list[Any]:
    with tensorflow.device(f"/device:CPU:{partition}"):
        firsts = [
            tensorflow.random.stateless_normal([shape.width] * 2, seed=[partition, layer]) / shape.width**0.5
            for layer in range(shape.layers)
        ]
        return [tensorflow.compat.v1.Variable(first, use_resource=True) for first in firsts]


def _loss(tensorflow: Any, weights: list[list[Any]], batch: Any) -> Any:
    made = batch
    for partition, of_partition in enumerate(weights):
        with tensorflow.device(f"/device:CPU:{partition}"):
            for own in of_partition:
                made = tensorflow.tanh(tensorflow.matmul(made, own))
    with tensorflow.device(f"/device:CPU:{len(weights) - 1}"):
        return tensorflow.reduce_mean(tensorflow.square(made))


def start(tensorflow: Any, graph: GraphDef, partitions: int, fetches: tuple[str, ...]) -> Mode:
    v1 = tensorflow.compat.v1
    threads = {"intra_op_parallelism_threads": 1, "inter_op_parallelism_threads": partitions}
    config = v1.ConfigProto(device_count={"CPU": partitions}, use_per_session_threads=True, **threads)
    with tensorflow.Graph().as_default() as own:
        definition = v1.GraphDef.FromString(graph.SerializeToString())
        tensorflow.graph_util.import_graph_def(definition, name="")
    session = v1.Session(graph=own, config=config)
    session.run(RESET)
    return Mode(session, fetches, tensorflow)


def modes_of(tensorflow: Any, shape: Shape) -> dict[str, Mode]:
    count = shape.partitions
    step = (f"{LOSS}:0", TRAIN)
    modes = {"plain": start(tensorflow, training(tensorflow, shape, shape.samples, 1), count, step)}
    for each in MICRO:
        cut = training(tensorflow, shape, shape.samples, each * count)
        modes[f"pipeline of {each * count}"] = start(tensorflow, cut, count, step)
    one = training(tensorflow, shape, shape.samples // count, 1)
    waves = TickTockPartitions()(GraphItem(one, fetches=(LOSS, TRAIN))).item.graph
    fetches = tuple([wave_name(name, wave) for name in step for wave in range(count)])
    modes["waves"] = start(tensorflow, waves, count, fetches)
    return modes


def measure(arguments: argparse.Namespace) -> dict[str, object]:
    set_up(AllocatorSettings(POOL_BYTES))
    import tensorflow

    tf: Any = tensorflow
    cpu = tf.config.list_physical_devices("CPU")[0]
    logical = [tf.config.LogicalDeviceConfiguration()] * arguments.partitions
    tf.config.set_logical_device_configuration(cpu, logical)
    shape = Shape(arguments.partitions, arguments.layers, arguments.width, arguments.samples)
    modes = modes_of(tf, shape)
    run_interleaved({name: lambda m=mode: m.block(WARMUP_STEPS) for name, mode in modes.items()}, 1)
    blocks = run_interleaved(
        {name: lambda m=mode: m.block(arguments.steps) for name, mode in modes.items()}, arguments.repeats
    )
    medians = {name: [statistics.median(s) for s, _ in of_mode] for name, of_mode in blocks.items()}
    return {
        "settings": vars(arguments),
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "modes": {
            name: {
                "samples_per_second": shape.samples / statistics.median(of_mode),
                "over_plain": statistics.median(
                    plain / own for plain, own in zip(medians["plain"], of_mode, strict=True)
                ),
                "peak_bytes": max(peak for _, peak in blocks[name]),
                "blocks_seconds": of_mode,
            }
            for name, of_mode in medians.items()
        },
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--layers", type=int, default=8, help="of a partition")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--samples", type=int, default=8192, help="of a step")
    parser.add_argument("--steps", type=int, default=6, help="of a block")
    parser.add_argument("--repeats", type=int, default=8, help="blocks of each mode")
    print(json.dumps(measure(parser.parse_args()), indent=1))
