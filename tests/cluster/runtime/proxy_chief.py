"""A chief that trains under ParameterServerStrategy, and says in which order its parameters left the server.

Usage: python -m tests.cluster.runtime.proxy_chief '{"cluster": {...}, "control": "127.0.0.1:1234"}'
"""

import json
import os
import sys
from typing import Any

VARIABLES = 9
STEPS = 8


def main() -> None:
    request = json.loads(sys.argv[1])
    import tensorflow as tf

    from tests.cluster.model import by_step, device
    from tests.plans import plan_by_hand
    from tfwave.graph.names import Channel
    from tfwave.runtime.control.client import ControlClient

    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(tf.train.ClusterSpec(request["cluster"]))
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    start = [tf.random.stateless_normal([64, 64], [1, i]) for i in range(VARIABLES)]
    with strategy.scope():
        variables = [tf.Variable(value) for value in start]
    step = step_of(tf, strategy, variables)

    def train() -> list[float]:
        for variable, value in zip(variables, start, strict=True):
            variable.assign(value)
        return [float(coordinator.schedule(step).fetch()) for _ in range(STEPS)]

    losses = [train()]
    orders: list[Any] = []
    reads = ["ReadVariableOp", *(f"ReadVariableOp_{i}" for i in range(1, VARIABLES))]
    workers = [device("worker", i) for i in range(len(request["cluster"]["worker"]))]

    def plan_of(names: list[str]) -> Any:
        edges = [f"edge_0_{name}" for name in names]
        return plan_by_hand({Channel(device("ps", 0), worker): edges for worker in workers})

    mixed = sorted(reads, key=hash_of)
    with strategy.scope():
        name = step.get_concrete_function().name.decode()
    by_function = {"": plan_of(mixed), name: plan_of(mixed[::-1])}
    with ControlClient(request["control"]) as ps:
        for plans in (plan_of(mixed), by_function):
            ps.install(plans)
            losses.append(train())
            log = ps.hand_offs()
            functions = sorted({log.channels[h.channel].function != "" for h in log.hand_offs})
            steps = [(ranks, sorted(reasons)) for ranks, reasons in by_step(log)]
            orders.append({"of_a_function": functions, "steps": steps})
        ps.remove()
    sys.stdout.write(json.dumps({"losses": losses, "orders": orders}))
    sys.stdout.flush()
    os._exit(0)  # the coordinator's threads outlive the servers otherwise


def hash_of(name: str) -> int:
    """An order that is neither that of the names nor that of the graph."""
    return sum(ord(c) * 7919 for c in name) % 1009


def step_of(tf: Any, strategy: Any, variables: list[Any]) -> Any:
    def replica() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.add_n([tf.reduce_sum(tf.sin(v * 1.5)) for v in variables])
        for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
            variable.assign_sub(0.05 * gradient)
        return loss

    return tf.function(lambda: strategy.run(replica))


if __name__ == "__main__":
    main()
