"""Models for the cluster tests, their plans, and what the log says of them."""

import random
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from tests.cluster.cluster import Cluster
from tests.plans import plan_by_hand
from tfwave.graph.names import Channel
from tfwave.plan.plan import Plan
from tfwave.proto import control_pb2

v1 = tf.compat.v1
VARIABLES = 24


def device(job: str, task: int) -> str:
    return f"/job:{job}/replica:0/task:{task}/device:CPU:0"


@dataclass
class Model:
    """A session on one worker, whose variables live on parameter servers."""

    session: Any
    train: Any
    loss: Any
    evaluation: Any  # reads every third variable
    blocked: Any  # reads all variables, and what `unblock` sends
    unblock: Any
    failing: Any

    def step(self, count: int = 1) -> list[float]:
        return [self.session.run([self.loss, self.train])[0] for _ in range(count)]

    def partitions(self, fetches: Any) -> Any:
        return partitions(self.session, fetches)

    def abandon(self) -> None:
        """Never close the session, whose master is dead: closing waits for it, be it when it is collected."""
        self.session._closed = True


def build(cluster: Cluster, worker: int, ps: list[int], prefix: str, size: int = 256) -> Model:
    graph = tf.Graph()
    with graph.as_default():
        generator = np.random.default_rng(7)
        variables = []
        for i in range(VARIABLES):
            with tf.device(device("ps", ps[i % len(ps)])):
                start = generator.standard_normal(size).astype(np.float32)
                variables.append(v1.Variable(start, name=f"{prefix}_v{i}", use_resource=True))
        with tf.device(device("ps", ps[0])):
            queue = tf.queue.FIFOQueue(100, [tf.float32], [[]], shared_name=f"{prefix}_queue")
            gate, unblock = queue.dequeue(name=f"{prefix}_gate"), queue.enqueue(1.0)
            broken = tf.debugging.Assert(tf.equal(queue.size(), -1), ["broken on purpose"])
        with tf.device(device("worker", worker)):
            reads = [v.read_value() for v in variables]
            loss = tf.add_n([tf.reduce_sum(tf.sin(r)) for r in reads])
            rates = [(r * 0.05 + tf.cos(loss) * 0.01) for r in reads]
            evaluation = tf.add_n([tf.reduce_max(r) for r in reads[::3]])
            blocked = loss + gate
            with tf.control_dependencies([broken]):
                failing = tf.add_n([tf.reduce_min(r) for r in reads]) + gate
        train = tf.group(*[v.assign_sub(rate) for v, rate in zip(variables, rates, strict=True)])
        init = v1.global_variables_initializer()
    filters = ["/job:ps", f"/job:worker/task:{worker}"]
    # Without a timeout, a call to a dead master is retried for ever.
    config = v1.ConfigProto(device_filters=filters, operation_timeout_in_ms=60_000)
    session = v1.Session(cluster.target(worker), graph=graph, config=config)
    session.run(init)
    return Model(session, train, loss, evaluation, blocked, unblock, failing)


def partitions(session: Any, fetches: Any) -> Any:
    """The graphs that a run of a session is cut into."""
    metadata = v1.RunMetadata()
    session.run(fetches, options=v1.RunOptions(output_partition_graphs=True), run_metadata=metadata)
    return metadata.partition_graphs


def sends(partitions: Any) -> dict[tuple[str, str], list[str]]:
    """The edges that carry data between tasks, by devices."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for graph in partitions:
        ops = {node.name: node.op for node in graph.node}
        for node in graph.node:
            if node.op not in ("_Send", "_HostSend") or node.attr["client_terminated"].b:
                continue
            if ops[node.input[0].split(":")[0]] == "Const":
                continue
            pair = node.attr["send_device"].s.decode(), node.attr["recv_device"].s.decode()
            if pair[0] != pair[1]:
                found[pair].append(node.attr["tensor_name"].s.decode())
    return found


def plan_of(
    edges: dict[tuple[str, str], list[str]], seed: int | None, source: str = "/job:ps", window_bytes: int = 0
) -> Plan:
    """A plan in random order; `seed` None: as given. With a window it goes by priority."""
    orders: dict[Channel, list[str]] = {}
    for pair in sorted(p for p in edges if p[0].startswith(source)):
        names = sorted(edges[pair]) if seed is not None else edges[pair]
        if seed is not None:
            random.Random(seed).shuffle(names)
        orders[Channel(*pair)] = names
    return plan_by_hand(orders, window_bytes)


def gate_first(plan: Plan, window_bytes: int = 0) -> Plan:
    """The same plan with the transfers that wait for `unblock` in front: by a counter, the others wait too."""
    edges = {order.channel: [t.edge for t in order.transfers] for order in plan.orders}
    in_turn = {c: sorted(names, key=lambda name: "gate" not in name) for c, names in edges.items()}
    return plan_by_hand(in_turn, window_bytes)


def branching(cluster: Cluster, task: int) -> tuple[Any, Any]:
    """A session and a fetch with transfers in a loop, in a taken branch and in one that is not taken."""
    graph = tf.Graph()
    with graph.as_default():
        with tf.device(device("ps", task)):
            values = [v1.Variable(float(i), name=f"branch_v{i}", use_resource=True) for i in range(6)]
        with tf.device(device("worker", 0)):
            pick = v1.placeholder_with_default(True, [])

            def read(i: int) -> Any:
                with tf.device(device("ps", task)):
                    return values[i] * 2.0

            either = tf.cond(pick, lambda: tf.sin(read(0)), lambda: tf.cos(read(1)))
            looped = tf.while_loop(lambda i, _: i < 3, lambda i, s: (i + 1, s + tf.sin(read(2))), [0, 0.0])[1]
            total = either + looped + tf.add_n([tf.sin(read(i)) for i in range(3, 6)])
        init = v1.global_variables_initializer()
    config = v1.ConfigProto(device_filters=["/job:ps", "/job:worker/task:0"], operation_timeout_in_ms=60_000)
    session = v1.Session(cluster.target(0), graph=graph, config=config)
    session.run(init)
    return session, total


def flood(cluster: Cluster, worker: int, count: int) -> tuple[Any, Any]:
    """A session and a fetch that makes a server send tensors of 1 MiB to a worker, more than sockets can hold."""
    graph = tf.Graph()
    with graph.as_default():
        with tf.device(device("ps", 0)):
            one = v1.Variable(np.ones(1 << 18, np.float32), name="flood", use_resource=True)
            tensors = [one * float(i + 2) for i in range(count)]
        with tf.device(device("worker", worker)):
            total = tf.add_n([tf.reduce_sum(tensor) for tensor in tensors])
        init = v1.global_variables_initializer()
    config = v1.ConfigProto(
        device_filters=["/job:ps", f"/job:worker/task:{worker}"], operation_timeout_in_ms=60_000
    )
    session = v1.Session(cluster.target(worker), graph=graph, config=config)
    session.run(init)
    return session, total


def by_step(log: control_pb2.HandOffs) -> list[tuple[list[int], set[int]]]:
    """(ranks in the order of hand-off, reasons) of each (step, channel)."""
    ranks: dict[tuple[int, int], list[int]] = defaultdict(list)
    reasons: dict[tuple[int, int], set[int]] = defaultdict(set)
    for h in log.hand_offs:
        ranks[h.step, h.channel].append(h.rank)
        reasons[h.step, h.channel].add(h.reason)
    return [(ranks[k], reasons[k]) for k in ranks]


def inversions(ranks: list[int]) -> float:
    """The share of pairs that are out of order."""
    pairs = [(a, b) for i, a in enumerate(ranks) for b in ranks[i + 1 :]]
    return sum(a > b for a, b in pairs) / len(pairs)
