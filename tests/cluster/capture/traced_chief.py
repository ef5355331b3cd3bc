"""A chief that traces its worker and its ps from outside, while two functions run on the one worker.

Usage: python -m tests.cluster.capture.traced_chief CLUSTER FOLDER
Writes an XSpace each to FOLDER/worker and FOLDER/ps, prints function names.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import tensorflow as tf

from tfwave.capture.function import function_name
from tfwave.runtime.trace.profiler import Profiler

LAYERS = 4
STEPS = 5
SIZE = 64


def step_of(strategy: Any, weights: list[Any], batch: int) -> Any:
    @tf.function
    def step() -> Any:
        def replica() -> Any:
            with tf.GradientTape() as tape:
                out = tf.random.stateless_normal([batch, SIZE], [1, 2])
                for weight in weights:
                    out = tf.tanh(tf.matmul(out, weight, name="product"))
                loss = tf.reduce_mean(out**2)
            for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
                weight.assign_sub(gradient)
            return loss

        return strategy.run(replica)

    return step


def main(cluster: dict[str, list[str]], folder: Path) -> dict[str, str]:
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(cluster), task_type="chief", task_id=0, rpc_layer="grpc"
    )
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        weights = [tf.Variable(tf.ones([SIZE, SIZE]) / SIZE) for _ in range(LAYERS)]
    steps = {"small": step_of(strategy, weights, 8), "large": step_of(strategy, weights, 4096)}

    def run(count: int) -> None:
        for _ in range(count):
            for step in steps.values():
                coordinator.schedule(step)
        coordinator.join()

    run(2)
    profilers = {job: Profiler(cluster[job][0]) for job in ("worker", "ps")}
    for profiler in profilers.values():
        profiler.start()
    run(STEPS)
    for job, profiler in profilers.items():
        (folder / job).write_bytes(profiler.stop())
    with strategy.scope():  # outside it, TensorFlow would trace them once more
        return {name: function_name(step.get_concrete_function()) for name, step in steps.items()}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(json.loads(sys.argv[1]), Path(sys.argv[2]))) + "\n")
    sys.stdout.flush()
    os._exit(0)  # a coordinator's threads wait for servers that nobody ends
