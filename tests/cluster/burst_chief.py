"""A chief that trains by burst plans on the CPUs of workers: `python -m tests.cluster.burst_chief JSON`.

Says how far gradients on three workers are from those of this process, and where ops are.
"""

import json
import sys
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tests.numerics.bursts import BATCH, gradients, made, places, plan_of
from tfwave.keras import BurstCallback


def main() -> None:
    cluster = tf.train.ClusterSpec(json.loads(sys.argv[1]))
    tf.config.experimental_connect_to_cluster(cluster, job_name="chief", protocol="grpc")
    workers = [f"/job:worker/task:{task}/device:CPU:0" for task in range(3)]
    found = [of_step(None, None), of_step("turns", workers)]
    apart = [
        float(np.max(np.abs(one - other)) / np.max(np.abs(other)))
        for one, other in zip(found[1], found[0], strict=True)
    ]
    sys.stdout.write(json.dumps({"apart": max(apart), "losses": losses(workers), "ran": ran(workers)}) + "\n")


def of_step(kind: str | None, devices: Any) -> list[Any]:
    model = made("vgg")
    step, batch = gradients(model, plan_of(places(model, kind)) if kind else None, devices=devices)
    return [one.numpy() for one in step(*batch)[1]]


def losses(workers: list[str]) -> list[list[float]]:
    """Of `fit` here, and on the workers."""
    draw = np.random.default_rng(1)
    images, classes = draw.standard_normal((2 * BATCH, 6, 6, 2)), draw.integers(0, 3, 2 * BATCH)
    found: list[list[float]] = []
    for devices in (None, workers):
        with tf.device(workers[0] if devices else "/job:chief/task:0/device:CPU:0"):
            model = made("vgg")
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.SGD(0.1, momentum=0.9), loss, jit_compile=False)
        burst = [BurstCallback(plan_of(places(model, "turns")), devices=devices)] if devices else []
        history = model.fit(images, classes, batch_size=BATCH, shuffle=False, verbose=0, callbacks=burst)
        found.append(history.history["loss"])
    return found


def ran(workers: list[str]) -> dict[str, int]:
    """How often a filter's gradient is computed, by task, where both convolutions are on workers 1 and 2."""
    model = made("vgg")
    plan = plan_of({name: (1, 2) if "conv" in name else (0, 1) for name in places(model, "one")})
    step, batch = gradients(model, plan, devices=workers)
    graph = step.get_concrete_function(*batch).graph
    devices = [op.device for op in graph.get_operations() if op.type == "Conv2DBackpropFilter"]
    return {device: devices.count(device) for device in sorted(set(devices))}


if __name__ == "__main__":
    main()
