"""Chiefs of placed strategies: `-m tests.cluster.distribute.placed_chief SCENARIO JSON` says what it found."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import tensorflow as tf

from tests.cluster.distribute.chiefs import batches_of, recommender, scheduled, strategy, train_step
from tfwave.distribute.placement import place
from tfwave.errors import TfwaveError
from tfwave.plan.placement import Placement
from tfwave.plan.plan import Plan

STEPS = 6
SAVED = 3


def trained(directory: str, placement: str | None, restored: bool) -> dict[str, Any]:
    """Losses of the steps, or of those after the checkpoint in `directory`; "none" places as the bytes fall."""
    tf.config.experimental.enable_op_determinism()
    chosen = strategy()
    placed = place(chosen, None if placement == "none" else placement) if placement else None
    coordinator = tf.distribute.coordinator.ClusterCoordinator(chosen)
    made = recommender(chosen)
    checkpoint = tf.train.Checkpoint(model=made, optimizer=made.optimizer)
    saved = str(Path(directory, "saved"))
    step, data, losses = train_step(chosen, made), batches_of(made, STEPS), []
    if restored:
        checkpoint.restore(saved).expect_partial()
    else:
        losses += one_by_one(coordinator, step, data[:SAVED])
        checkpoint.write(saved)
    losses += one_by_one(coordinator, step, data[SAVED:])
    found = {"losses": losses, "servers": servers_of(made.variables + made.optimizer.variables)}
    return found | (proposed(chosen, placed, step, data, directory) if placed else {})


def one_by_one(coordinator: Any, step: Any, batches: list[Any]) -> list[str]:
    return [scheduled(coordinator, step, [data])[0].hex() for data in batches]


def proposed(chosen: Any, placed: Any, step: Any, data: list[Any], directory: str) -> dict[str, Any]:
    with chosen.scope():
        concrete = step.get_concrete_function(data[0])
    found, whole = placed.balance(concrete), placed.balance()
    placed.save(Path(directory, "plan.json"), concrete)
    return {
        "now": placed.placement.variables,
        "after": found.placement.variables,
        "bytes": {v.name: v.bytes for v in found.variables},
        "whole": {v.name: v.bytes for v in whole.variables},
        "bytes_now": found.bytes_now,
        "bytes_after": found.bytes_after,
    }


def servers_of(variables: Any) -> dict[str, int]:
    """By the names that Keras gives; the task of each variable's device."""
    return {v.path: server_of(v.value) for v in variables}


def server_of(variable: Any) -> int:
    return int(tf.DeviceSpec.from_string(variable.device).task)


def shards() -> dict[str, Any]:
    """Variables of one name, shards, slots, and what is made when placing has ended."""
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    partitioner = tf.distribute.experimental.partitioners.FixedShardsPartitioner(2)
    chosen = tf.distribute.ParameterServerStrategy(resolver, partitioner)
    names = {"table/part_0": 1, "table/part_1": 1, "outer/w": 0, "outer/w#2": 1, "outer/w#3": 1}
    placed = place(chosen, Plan(placement=Placement(2, names)))
    with chosen.scope():
        table = tf.Variable(tf.zeros([4, 2]), name="table")
        with tf.name_scope("outer"):
            same = [tf.Variable(float(i), name="w") for i in range(3)]
        with chosen.extended.colocate_vars_with(same[0]):
            slot = tf.Variable(0.0, name="slot")
        free = [tf.Variable(0.0, name="free") for _ in range(2)]
        placed.stop()
        turns = [tf.Variable(0.0) for _ in range(3)]
    return {
        "table": [server_of(v) for v in table.variables],
        "same": [server_of(v) for v in same],
        "slot": server_of(slot),
        "free": [server_of(v) for v in free],
        "turns": [server_of(v) for v in turns],
        "placement": placed.placement.variables,
        "followers": [v.followers for v in placed.balance().variables if v.name == "outer/w"],
        "refused": [refusal(chosen, Placement(3, {})), refusal(tf.distribute.get_strategy(), None)],
    }


def refusal(chosen: Any, placement: Placement | None) -> str:
    try:
        place(chosen, placement and Plan(placement=placement))
    except TfwaveError as err:
        return str(err)
    return ""


SCENARIOS = {f.__name__: f for f in (trained, shards)}


if __name__ == "__main__":
    scenario, arguments = sys.argv[1:]
    sys.stdout.write(json.dumps(SCENARIOS[scenario](**json.loads(arguments))) + "\n")
    sys.stdout.flush()
    os._exit(0)  # a coordinator's threads outlive the servers they wait for
