"""What the chief does in the tests of tfwave.embedding: each function gives facts, and the test judges them."""

import time
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tests.cluster.scenario_chief import ask
from tests.numerics.embedding.embedding_job import ROWS, batches, dataset, starts, stepped
from tfwave.embedding import SGD, Adagrad, Table, capture, staged
from tfwave.errors import CostError

BATCHES = 10


class Cluster:
    """Tables on the servers: users and items in as many shards as there are servers, words whole."""

    def __init__(self, strategy: Any, **options: Any) -> None:
        self.coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        values = starts()
        with strategy.scope():
            self.weight = tf.Variable(tf.ones([4]))
            whole = tf.Variable(values["words"])
        shards = {table: self.sharded(table, values[table]) for table in ("users", "items")}
        self.tables = {
            "users": Table(shards["users"], SGD(0.1)),
            "items": Table(shards["items"], Adagrad(0.1)),
            "words": Table(whole, Adagrad(0.05, 0.2)),
        }
        self.staged = staged(stepped(self.weight), self.tables, **options)

    def sharded(self, table: str, value: Any) -> Any:
        """What a `variable_partitioner` makes."""
        middle = len(value) // 2
        parts: list[Any] = []
        for server, rows in enumerate((value[:middle], value[middle:])):
            with tf.device(f"/job:ps/task:{server}"):
                parts.append(tf.Variable(rows))
        return tf.__internal__.distribute.ShardedVariable(parts, name=table)

    def train(self, found: Any) -> list[float]:
        remote = [
            self.coordinator.schedule(call.function, args=call.args)
            for call in self.staged.calls(dataset(found))
        ]
        self.coordinator.join()
        return [float(loss) for values in remote for loss in values.fetch()]

    def state(self) -> list[str]:
        kept = [shard for table in self.tables.values() for shard in (*table.shards, *sum(table.slots, ()))]
        return [variable.numpy().tobytes().hex() for variable in (*kept, self.weight)]


def equal(strategy: Any) -> dict[str, Any]:
    """One step a call, and several; each from the start."""
    facts: dict[str, Any] = {}
    for name, options in {"single": {"steps": 1}, "staged": {"steps": 4}}.items():
        cluster = Cluster(strategy, **options)
        losses = cluster.train(batches(BATCHES))
        facts[name] = {"losses": losses, "state": cluster.state()}
    facts["devices"] = sorted({shard.device for table in cluster.tables.values() for shard in table.shards})
    return facts


def transfers(strategy: Any, steps: int) -> dict[str, Any]:
    """How many tensors of numbers go each way between the worker and each server in one call, as it is cut."""
    cluster = Cluster(strategy, steps=steps)
    call = next(cluster.staged.calls(dataset(batches(steps))))
    graph = call.function.get_concrete_function(*call.args).graph
    crossing: dict[str, set[str]] = {"down": set(), "up": set()}
    for node in graph.get_operations():
        for tensor in node.inputs:
            if tensor.dtype != tf.float32 or tensor.op.type in ("Placeholder", "ReadVariableOp", "Const"):
                continue
            source, target = (_task(op) for op in (tensor.op, node))
            if source != target and {source, target} != {"ps/0", "ps/1"}:
                crossing["up" if source == "" else "down"].add(f"{tensor.name}:{target or source}")
    return {way: len(found) for way, found in crossing.items()}


def captures(strategy: Any, folder: str) -> dict[str, Any]:
    """Tables of this process, though it has joined a cluster, and tables on the servers."""
    weight = tf.Variable(tf.ones([4]))
    values = starts()
    here = {table: Table(tf.Variable(values[table]), SGD(0.1)) for table in values}
    found = capture(stepped(weight), here, dataset(batches(3)), f"{folder}/capture.json")
    facts: dict[str, Any] = {"batches": len(found.batches)}
    try:
        capture(stepped(weight), Cluster(strategy).tables, dataset(batches(3)), f"{folder}/capture.json")
    except CostError as err:
        facts["refused"] = str(err)
    return facts


def _task(op: Any) -> str:
    spec = tf.DeviceSpec.from_string(op.device)
    return f"{spec.job}/{spec.task}" if spec.job == "ps" else ""


def loses_a_worker(strategy: Any) -> dict[str, Any]:
    cluster = Cluster(strategy, steps=4)
    before = cluster.train(batches(8))
    ask("kill and restart the worker")
    after = cluster.train(batches(8, seed=2))
    return {"before": len(before), "after": np.isfinite(after).tolist()}


def counts_pushes(strategy: Any, kills: int, calls: int) -> dict[str, int]:
    """Each row loses 1 by each of its ids, while the worker is killed in the midst of calls.

    Returns how many rows lost less than that, and more.
    """
    cluster = Cluster(strategy)
    items = Table(cluster.sharded("items", np.zeros((ROWS["items"], 4), np.float32)), SGD(1.0))
    train = staged(_slowly, {"items": items}, steps=8)
    ids = np.random.default_rng(1).integers(0, ROWS["items"], (8 * calls, 6)).astype(np.int32)
    data = tf.data.Dataset.from_tensor_slices(({"items": ids}, np.ones(len(ids), np.float32)))
    remote = [cluster.coordinator.schedule(call.function, args=call.args) for call in train.calls(data)]
    for _ in range(kills):
        time.sleep(0.7)
        ask("kill and restart the worker")
    cluster.coordinator.join()
    assert len([loss for values in remote for loss in values.fetch()]) == len(ids)
    left = np.concatenate([shard.numpy() for shard in items.shards])
    lost = left + np.bincount(ids.ravel(), minlength=ROWS["items"])[:, None]
    return {"less": int((lost > 0).any(1).sum()), "more": int((lost < 0).any(1).sum())}


def _slowly(embedded: Any, batch: Any) -> Any:
    """Gradients of 1, some 20 ms later."""
    start = tf.fill([256, 256], batch)
    slow = tf.while_loop(lambda i, _: i < 30, lambda i, m: (i + 1, m @ m / 256.0), [0, start])[1]
    return tf.reduce_sum(slow), {name: tf.ones_like(rows) + 0 * slow[0, 0] for name, rows in embedded.items()}


def loses_a_server(strategy: Any) -> str:
    cluster = Cluster(strategy, steps=4)
    cluster.train(batches(4))
    ask("kill the servers")
    try:
        cluster.train(batches(40))
    except (tf.errors.UnavailableError, tf.errors.AbortedError) as err:
        return type(err).__name__
    return "nothing"


def keras_model(strategy: Any) -> dict[str, list[float]]:
    """A Keras 3 model and its optimizer beside a table."""
    return {name: _keras_losses(strategy, steps) for name, steps in {"single": 1, "staged": 4}.items()}


def _keras_losses(strategy: Any, steps: int) -> list[float]:
    keras.utils.set_random_seed(1)
    with strategy.scope():
        items = tf.Variable(starts()["items"])
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, "relu"), keras.layers.Dense(1)])
        optimizer = keras.optimizers.Adam(0.05)
        optimizer.build(model.trainable_variables)

    def replica(embedded: Any, batch: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(embedded)
            loss = tf.reduce_mean(tf.square(model(embedded["items"])[:, 0] - batch))
        rows, dense = tape.gradient(loss, (embedded, model.trainable_variables))
        optimizer.apply(dense, model.trainable_variables)
        return loss, rows

    def step(embedded: Any, batch: Any) -> Any:
        return strategy.run(replica, args=(embedded, batch))

    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    train = staged(step, {"items": Table(items, Adagrad(0.1))}, steps=steps)
    data = dataset([element for element in batches(12) if len(element[1])])
    pairs = data.map(lambda ids, batch: ({"items": ids["items"]}, batch))
    remote = [coordinator.schedule(call.function, args=call.args) for call in train.calls(pairs)]
    coordinator.join()
    return [float(loss) for values in remote for loss in values.fetch()]
