"""A chief that runs burst plans, on four CPU devices of its own and on those of four workers.

python -m tests.cluster.keras.burst_chief CLUSTER      then obeys: `step`, `fit` and `beside`
"""

import json
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context  # pyright: ignore

from tests.cluster.speaker import obey, say
from tests.lowered import spare
from tests.numerics.distribute.bursts import BATCH, Place, gradients, in_turns, made, plan_of
from tfwave.colocate import Background
from tfwave.keras import BurstCallback
from tfwave.keras.bursts.nodes import nodes_of

DEVICES = 4
HERE = [f"/job:chief/replica:0/task:0/device:CPU:{number}" for number in range(DEVICES)]
THERE = [f"/job:worker/replica:0/task:{number}/device:CPU:0" for number in range(DEVICES)]
IDLE_IN_TURNS: list[Place] = [(0, 2), (0, 1)]
"""On two workers, of which the second has nothing to do in every other layer."""
LEAST_STEPS, STEPS_BEHIND = 4, 4
SECONDS = 120.0
"""What gets only what others leave may take long for a little."""
PLACES = {"here": HERE, "there": THERE}
PLANS: dict[str, list[Place]] = {
    "one": [(3, 1)],
    "all": [(0, 4)],
    "two": [(1, 2)],
    "three": [(1, 3)],
    "turns": [(0, 4), (0, 1), (0, 2), (0, 3)],
    "apart": [(2, 2), (0, 1), (0, 2), (3, 1), (1, 3)],
}
LAYER = re.compile(r"(\w+\.own)(?:_\d+)?/")
"""A layer's scope, which has a number behind it for each further shard."""
PASSING = {"AssignVariableOp", "Const", "Identity", "IdentityN", "NoOp", "ReadVariableOp"}
PASSING |= {"_Arg", "_HostRecv", "_HostSend", "_Recv", "_Retval", "_Send"}
PASSING |= {"Enter", "Exit", "LoopCond", "Merge", "NextIteration", "Switch"}
"""Ops that hand on what others compute; those of a loop's gradient TensorFlow puts on the first device."""
MOVING = {"AddN", "ConcatV2", "Slice", "SplitV", "ZerosLike"}
"""Besides layers: cuts and joins of shards, and sums of gradients, which are zeros of what nobody reads."""


def named(name: str) -> Any:
    """A model whose layers are told apart by the scopes of their ops."""
    model = made(name)
    for node in nodes_of(model):
        node.layer.name += ".own"
    return model


@cache
def alone(name: str) -> list[Any]:
    """Loss, gradients and what a step changes by itself, of one device."""
    model = named(name)
    step, batch = gradients(model, None)
    return found_by(model, *step(*batch))


def found_by(model: Any, loss: Any, found: Any) -> list[Any]:
    return [one.numpy() for one in (loss, *found, *model.non_trainable_variables)]


def step(name: str, kind: str, where: str) -> dict[str, Any]:
    """How far a step by a plan is from one device's, and where its ops ran."""
    model, devices = named(name), PLACES[where]
    chosen = in_turns(model, PLANS[kind])
    function, batch = gradients(model, plan_of(chosen, devices=DEVICES), devices=devices)
    live: Any = context.context()
    live.enable_run_metadata()
    try:
        live.export_run_metadata()  # what ran before
        found = found_by(model, *function(*batch))
        metadata = live.export_run_metadata()
    finally:
        live.disable_run_metadata()
    apart = [
        float(np.max(np.abs(one - other))) / (float(np.max(np.abs(other))) or 1.0)
        for one, other in zip(found, alone(name), strict=True)
    ]
    graphs = [graph for one in metadata.function_graphs for graph in one.partition_graphs]
    return {"apart": max(apart), "places": chosen, **ran(graphs, devices)}


def ran(graphs: Any, devices: list[str]) -> dict[str, Any]:
    """The numbers of the devices of each layer's ops, forward and backward; and what else is computed where."""
    forward, backward, others = (defaultdict[str, set[int]](set) for _ in range(3))
    for node in [node for graph in graphs for node in graph.node if node.op not in PASSING]:
        device = devices.index(node.device) if node.device in devices else -1
        if layer := LAYER.search(node.name):
            (backward if "gradient_tape/" in node.name else forward)[layer[1]].add(device)
        elif node.op not in MOVING:
            others[node.op].add(device)
    named_sets = {"forward": forward, "backward": backward, "others": others}
    return {name: {key: sorted(value) for key, value in found.items()} for name, found in named_sets.items()}


def fit() -> list[list[float]]:
    """Losses of `fit` here, and on the workers."""
    draw = np.random.default_rng(1)
    images, classes = draw.standard_normal((2 * BATCH, 6, 6, 2)), draw.integers(0, 3, 2 * BATCH)
    found: list[list[float]] = []
    for devices in (None, THERE):
        with tf.device((devices or HERE)[0]):
            model = made("vgg")
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.SGD(0.1, momentum=0.9), loss, jit_compile=False)
        plan = plan_of(in_turns(model, PLANS["turns"]), devices=DEVICES)
        burst = [BurstCallback(plan, devices=devices)] if devices else []
        history = model.fit(images, classes, batch_size=BATCH, shuffle=False, verbose=0, callbacks=burst)
        found.append(history.history["loss"])
    return found


def trained(wrapped: Callable[[Callable[[], None]], bool]) -> list[str]:
    """The losses of a training on two workers, as long as what wraps each step says to go on."""
    with tf.device(HERE[0]):
        model = named("vgg")
    plan = plan_of(in_turns(model, IDLE_IN_TURNS), devices=2)
    step, batch = gradients(model, plan, devices=THERE[:2])
    losses: list[str] = []

    def one() -> None:
        loss, found = step(*batch)
        for weight, gradient in zip(model.trainable_variables, found, strict=True):
            weight.assign_sub(0.1 * gradient)
        losses.append(float(loss).hex())

    while wrapped(one):
        pass
    return losses


def beside(program: str, note: str, ends: bool) -> dict[str, Any]:
    """A training on two workers with a background, until that has made steps, or ended; and the same one alone."""
    with Background([program, note]) as background:
        spare(background.pid)
        end, behind = time.monotonic() + SECONDS, STEPS_BEHIND

        def in_step(one: Callable[[], None]) -> bool:
            nonlocal behind
            with background.step():
                one()
            is_seen = background.report().exit_code is not None if ends else steps_of(note) >= LEAST_STEPS
            behind -= is_seen
            return behind > 0 and time.monotonic() < end

        losses = trained(in_step)
        report = background.report()
    left = iter(range(len(losses) - 1, -1, -1))

    def by_itself(one: Callable[[], None]) -> bool:
        one()
        return next(left) > 0

    return {
        "beside": losses,
        "alone": trained(by_itself),
        "steps": steps_of(note),
        "seen": behind <= 0,
        "exit_code": report.exit_code,
    }


def steps_of(note: str) -> int:
    """So many a background has noted."""
    path = Path(note)
    return len(path.read_bytes()) if path.is_file() else 0


def main() -> None:
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * DEVICES)
    cluster = tf.train.ClusterSpec(json.loads(sys.argv[1]))
    tf.config.experimental_connect_to_cluster(cluster, job_name="chief", protocol="grpc")
    say("ready")
    obey({"step": step, "fit": fit, "beside": beside})


if __name__ == "__main__":
    main()
