"""Split variables on real training graphs: the same bits, in blocks on the wire."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from grappler_passes.cross_step import CrossStep
from grappler_passes.split_variables import SplitVariables
from tests.numerics.corpus.places import LOCAL, Places, cluster
from tests.numerics.corpus.sample import Array, same_bits
from tests.numerics.corpus.session import SessionSample, session_sample
from tests.numerics.graph.cut_graphs import control_flow
from tests.numerics.training_graphs import random_training
from tests.rewrites import check_rewrite, graph_bytes
from tfwave.graph.item import GraphItem
from tfwave.graph.names import TransferKey
from tfwave.graph.partition.cut import cut
from tfwave.graph.transfer import find_transfers
from tfwave.graph.view import GraphView
from tfwave.passes.pipeline import Pipeline
from tfwave.proto.tensorflow_pb2 import GraphDef
from tfwave.rewrite.blocks.cuttable import plan_split

pytestmark = pytest.mark.tensorflow

v1 = tf.compat.v1
MAX_BYTES = 512
Minimize = Callable[[Any, list[Any]], Any]


def optimizer(make: Callable[[], Any]) -> Minimize:
    def minimize(loss: Any, variables: list[Any]) -> Any:
        return make().minimize(loss, var_list=variables)

    return minimize


def keras(make: Callable[[], Any]) -> Minimize:
    def minimize(loss: Any, variables: list[Any]) -> Any:
        return tf.group(*make().get_updates(loss, variables))

    return minimize


def by_hand(loss: Any, variables: list[Any]) -> Any:
    """Gradient descent, with the step computed on the server."""
    gradients = tf.gradients(loss, variables)
    updates: list[Any] = []
    for variable, gradient in zip(variables, gradients, strict=True):
        with tf.device(variable.device):
            updates.append(variable.assign_sub(0.1 * gradient, read_value=False))
    return tf.group(*updates)


def momentum_by_hand(loss: Any, variables: list[Any]) -> Any:
    """Momentum in plain ops on the server, whose slot is read again once it is updated."""
    updates: list[Any] = []
    for variable, gradient in zip(variables, tf.gradients(loss, variables), strict=True):
        with tf.device(variable.device):
            slot = v1.Variable(tf.zeros(variable.shape), use_resource=True, name=f"{variable.op.name}_slot")
            grown = slot.assign(tf.sqrt(tf.abs(slot * 0.9)) - 0.1 * gradient)
            updates.append(variable.assign_add(0.01 * grown, read_value=False))
    return tf.group(*updates)


OPTIMIZERS: dict[str, Minimize] = {
    "by_hand": by_hand,
    "momentum_by_hand": momentum_by_hand,
    "gradient_descent": optimizer(lambda: v1.train.GradientDescentOptimizer(0.1)),
    "momentum": optimizer(lambda: v1.train.MomentumOptimizer(0.1, 0.9)),
    "nesterov": optimizer(lambda: v1.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True)),
    "keras_momentum": keras(lambda: tf_keras.optimizers.legacy.SGD(0.1, momentum=0.9)),
    "keras_amsgrad": keras(lambda: tf_keras.optimizers.legacy.Adam(0.05, amsgrad=True)),
    "keras_adamax": keras(lambda: tf_keras.optimizers.legacy.Adamax(0.05)),
    "adam": optimizer(lambda: v1.train.AdamOptimizer(0.05)),
    "adagrad": optimizer(lambda: v1.train.AdagradOptimizer(0.05)),
    "adadelta": optimizer(lambda: v1.train.AdadeltaOptimizer(0.5)),
    "rms_prop": optimizer(lambda: v1.train.RMSPropOptimizer(0.05, momentum=0.5)),
    "centered_rms_prop": optimizer(lambda: v1.train.RMSPropOptimizer(0.05, centered=True)),
    "ftrl": optimizer(lambda: v1.train.FtrlOptimizer(0.05, learning_rate_power=-0.4)),
    "proximal_adagrad": optimizer(
        lambda: v1.train.ProximalAdagradOptimizer(0.05, l1_regularization_strength=0.01)
    ),
}


@cache
def sample(name: str, places: Places = LOCAL) -> SessionSample:
    """Convolution, two dense layers and a penalty; sizes that no vector fits."""
    graph = tf.Graph()
    with graph.as_default(), v1.device(places.setter()):
        v1.set_random_seed(3)
        images = v1.placeholder(tf.float32, [None, 5, 5, 2], name="images")
        start = v1.glorot_uniform_initializer(seed=1)
        shapes = {"kernel": [3, 3, 2, 16], "dense": [400, 4], "bias": [4], "odd": [4, 91]}
        made = {
            key: v1.get_variable(key, shape, initializer=start if len(shape) > 1 else None, use_resource=True)
            for key, shape in shapes.items()
        }
        hidden = tf.nn.relu(tf.nn.conv2d(images, made["kernel"], 1, "SAME"))
        hidden = tf.nn.tanh(tf.matmul(tf.reshape(hidden, [-1, 400]), made["dense"]) + made["bias"])
        loss = tf.reduce_mean(tf.square(tf.matmul(hidden, made["odd"]) - 1.0))
        loss += 0.01 * tf.nn.l2_loss(made["odd"])
        train = OPTIMIZERS[name](loss, list(made.values()))
        variables = v1.global_variables()
    feeds = {images: np.random.default_rng(5).standard_normal([4, 5, 5, 2], np.float32)}
    return session_sample(
        name, places, graph, feeds=feeds, fetches=[loss], targets=[train], variables=variables
    )


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_gives_the_same_bits(name: str) -> None:
    case = sample(name)
    result = check_rewrite(SplitVariables(MAX_BYTES), case.item())
    assert not result.remarks
    layouts = plan_split(case.item(), MAX_BYTES).layouts
    assert {"kernel", "dense", "odd"} <= layouts.keys()
    assert all(len(layout) > 1 for layout in layouts.values())
    for grappler in (False, True):
        wanted = case.run(case.graph, grappler=grappler, steps=3)
        assert len({value.tobytes() for value in wanted[:3]}) == 3
        got = case.run(graph_bytes(result.item), grappler=grappler, steps=3)
        assert same_bits(got, wanted), f"grappler={grappler}"


@pytest.mark.parametrize("seed", [3, 6, 12])
def test_random_steps_also_overlapped(seed: int) -> None:
    """Each block of a variable waits for its own update in the step before."""
    training = random_training(seed, LOCAL)
    layouts = plan_split(training.item, MAX_BYTES).layouts
    assert layouts
    batches, grappler = training.batches(6, seed), seed % 2 == 0
    wanted = training.run(training.graph, batches, 1, target="", grappler=grappler)
    for transform, steps in ((split := SplitVariables(MAX_BYTES), 1), (Pipeline((split, CrossStep(3))), 3)):
        item = check_rewrite(transform, training.item).item
        assert same_bits(
            training.run(graph_bytes(item), batches, steps, target="", grappler=grappler), wanted
        )
    nodes = {node.name: node for node in item.graph.node}
    blocks = {f"{name}/block_{i}" for name, layout in layouts.items() for i in range(len(layout))}
    reads = [node for node in nodes.values() if node.op == "ReadVariableOp" and node.input[0] in blocks]
    later = [node for node in reads if node.name.startswith("cross_step/")]
    assert later
    for read in later:
        waited = [nodes[text[1:]] for text in read.input[1:]]
        assert waited
        assert {node.input[0] for node in waited} == {read.input[0]}


@pytest.mark.parametrize("name", ["by_hand", "momentum_by_hand", "adam"])
def test_the_wire_carries_blocks(name: str) -> None:
    """Both ways, as TensorFlow itself cuts the graph between tasks; nothing crosses that did not before."""
    case = sample(name, cluster())
    rewritten = graph_bytes(SplitVariables(MAX_BYTES)(case.item()).item)
    whole, blocks = crossing(case, case.graph), crossing(case, rewritten)
    assert max(value.nbytes for value in whole.values()) > 4 * MAX_BYTES
    assert max(value.nbytes for value in blocks.values()) <= MAX_BYTES
    for to_worker in (False, True):
        sizes = [bytes_of(values, to_worker) for values in (whole, blocks)]
        assert sum(sizes[0]) == sum(sizes[1])
        assert len(sizes[1]) > 2 * len(sizes[0])
    ours = cut(replace(case.item(rewritten), preserve=frozenset()), default="/job:worker/task:0")
    assert {t.key for t in find_transfers(GraphView.of(*ours)).data} == blocks.keys()
    assert same_bits(case.run(rewritten, grappler=True), case.run(case.graph, grappler=True))


def crossing(case: SessionSample, graph: bytes) -> dict[TransferKey, Array]:
    """What crosses tasks in a step, by TensorFlow's own partitions, with the values."""
    partitions = [GraphDef.FromString(data) for data in case.partition_graphs(graph)]
    keys = [transfer.key for transfer in find_transfers(GraphView.of(*partitions)).data]
    tensors = tuple(f"{key.node}:{key.port}" for key in keys)
    values = replace(case, fetches=tensors, variables=()).run(graph, grappler=False, steps=1)
    return dict(zip(keys, values, strict=True))


def bytes_of(values: Mapping[TransferKey, Array], to_worker: bool) -> list[int]:
    return [v.nbytes for key, v in values.items() if ("worker" in key.channel.destination) == to_worker]


def test_checkpoints_hold_whole_variables(tmp_path: Path) -> None:
    """Saved by either graph, restored by the other, from where training goes on alike."""
    with tf.Graph().as_default() as graph:
        loss, train, reads, init = small_step()
        with tf.device("/cpu:0"):
            saver = v1.train.Saver()
    definition = saver.as_saver_def()
    kept = frozenset({init, definition.restore_op_name, definition.save_tensor_name.partition(":")[0]})
    item = item_of(graph, ("x:0",), (loss, train, *reads), kept)
    rewritten = check_rewrite(SplitVariables(MAX_BYTES), item).item
    results: list[list[Any]] = []
    for number, (first, second) in enumerate(((item, rewritten), (rewritten, item), (item, item))):
        name = {definition.filename_tensor_name: str(tmp_path / f"{number}")}
        with session(first) as now:
            now.run(init)
            now.run([loss, train], FEEDS)
            now.run(definition.save_tensor_name, name)
        listed = dict(tf.train.list_variables(str(tmp_path / f"{number}")))
        assert {"w": [20, 30], "w/Adam": [20, 30]}.items() <= listed.items()
        with session(second) as now:
            now.run(definition.restore_op_name, name)
            results.append(now.run([loss, train], FEEDS)[:1] + now.run(list(reads)))
    assert same_bits(results[0], results[1])
    assert same_bits(results[0], results[2])


FEEDS = {"x:0": np.linspace(-1, 1, 80, dtype=np.float32).reshape(4, 20)}


def small_step() -> tuple[str, str, tuple[str, ...], str]:
    """The names of the loss, the train op, the reads of all variables, and the initialisation."""
    x = v1.placeholder(tf.float32, [None, 20], name="x")
    with tf.device("/cpu:1"):
        w = v1.get_variable(
            "w", [20, 30], initializer=v1.glorot_uniform_initializer(seed=1), use_resource=True
        )
    loss = tf.reduce_mean(tf.square(x @ w - 1.0))
    train = v1.train.AdamOptimizer(0.05).minimize(loss, name="train")
    init = v1.global_variables_initializer()
    return loss.name, train.name, tuple(v.value().name for v in v1.global_variables()), init.name


def item_of(graph: Any, feeds: Any, fetches: Any, preserve: Any = ()) -> GraphItem:
    definition = GraphDef.FromString(graph.as_graph_def().SerializeToString())
    return GraphItem(definition, tuple(feeds), tuple(fetches), frozenset(preserve))


def session(item: GraphItem) -> Any:
    with tf.Graph().as_default() as graph:
        tf.graph_util.import_graph_def(v1.GraphDef.FromString(graph_bytes(item)), name="")
    return v1.Session(graph=graph, config=v1.ConfigProto(device_count={"CPU": 3}))


def run(item: GraphItem, init: str, feeds: Mapping[str, Any], last: Sequence[str] = ()) -> list[Any]:
    """The fetches of three steps, and what is read after them."""
    with session(item) as now:
        now.run(init)
        values = [value for _ in range(3) for value in now.run(list(item.fetches), feeds)]
        return [*(value for value in values if value is not None), *now.run(list(last))]


@pytest.mark.parametrize("kind", [tf.half, tf.bfloat16, tf.float64])
def test_floats_of_other_sizes(kind: Any) -> None:
    with tf.Graph().as_default() as graph:
        with tf.device("/cpu:1"):
            start = np.linspace(0.1, 2, 7 * 131).reshape(7, 131)
            w = v1.get_variable("w", initializer=tf.constant(start, kind), use_resource=True)
        x = tf.constant(np.linspace(-1, 1, 14).reshape(2, 7), kind)
        loss = tf.reduce_mean(tf.square(tf.matmul(x, w)))
        train = v1.train.AdagradOptimizer(tf.cast(0.1, kind)).minimize(loss, name="train")
        read, init = w.value(), v1.global_variables_initializer()
    item = item_of(graph, (), (loss.name, train.name), {init.name, read.op.name})
    result = check_rewrite(SplitVariables(MAX_BYTES), item)
    assert plan_split(item, MAX_BYTES).blocks == 2 * -(-7 * 131 * kind.size // MAX_BYTES)
    wanted = run(item, init.name, {}, last=(read.name,))
    assert same_bits(run(result.item, init.name, {}, last=(read.name,)), wanted)


def test_casts_on_the_server_cross_in_blocks() -> None:
    """Weights are sent as halves, and gradients come back as such."""
    with tf.Graph().as_default() as graph:
        with tf.device("/job:ps/task:0"):
            w = v1.get_variable("w", [40, 30], initializer=v1.ones_initializer(), use_resource=True)
            half = tf.cast(w.value(), tf.half)
        with tf.device("/job:worker/task:0"):
            loss = tf.reduce_mean(tf.square(tf.matmul(tf.ones([2, 40], tf.half), half)))
            gradient = tf.gradients(loss, half)[0]
        with tf.device("/job:ps/task:0"):
            train = w.assign_sub(tf.cast(gradient, tf.float32) * 0.1, read_value=False)
    item = check_rewrite(SplitVariables(MAX_BYTES), item_of(graph, (), (loss.name, train.name))).item
    transfers = find_transfers(GraphView.of(*cut(item, default="/job:worker/task:0"))).data
    blocks = plan_split(item_of(graph, (), ()), MAX_BYTES).blocks
    assert len(transfers) == 2 * blocks
    assert {key.node for key in (t.key for t in transfers) if "ps" in key.channel.source} == {
        f"{half.op.name}/block_{block}" for block in range(blocks)
    }


def test_steps_written_out_by_hand_depend_block_by_block() -> None:
    """What waits for the whole update of a variable by a control edge waits for the same block alone."""
    with tf.Graph().as_default() as graph:
        with tf.device("/cpu:1"):
            w = v1.get_variable("w", [20, 30], initializer=v1.ones_initializer(), use_resource=True)
        losses: list[Any] = []
        updates: list[Any] = []
        for _ in range(3):
            with tf.device("/cpu:1"), tf.control_dependencies(updates[-1:]):
                now = w.value()
            losses.append(tf.reduce_mean(tf.square(tf.ones([2, 20]) @ now)))
            gradient = tf.gradients(losses[-1], now)[0]
            with tf.device("/cpu:1"):
                updates.append(w.assign_sub(0.1 * gradient, read_value=False))
        init = v1.global_variables_initializer()
    item = item_of(graph, (), [*(loss.name for loss in losses), updates[-1].name], {init.name})
    rewritten = check_rewrite(SplitVariables(MAX_BYTES), item).item
    nodes = {node.name: node for node in rewritten.graph.node}
    update = f"^{updates[0].name}"
    assert [f"{update}/block_2"] == [t for t in nodes["ReadVariableOp_1/block_2"].input if t.startswith("^")]
    assert same_bits(run(rewritten, init.name, {}), run(item, init.name, {}))


def test_what_else_uses_variables() -> None:
    """Asking whether they are initialised, branches, functions, gathering: by blocks or whole."""
    with tf.Graph().as_default() as graph:
        with tf.device("/cpu:1"):
            ones = {"initializer": v1.ones_initializer(), "use_resource": True}
            cut_one, gathered, called, in_branch = (
                v1.get_variable(name, [20, 30], **ones) for name in ("a", "b", "c", "d")
            )
        x = v1.placeholder(tf.float32, [], name="x")
        asked = v1.is_variable_initialized(cut_one)
        picked = tf.reduce_sum(tf.gather(gathered, [1, 3]))

        @tf.function(autograph=False)
        def double() -> Any:
            return called * 2.0

        total = tf.reduce_sum(double()) + picked
        with control_flow(1):
            taken = v1.cond(x > 0, lambda: tf.reduce_sum(in_branch.value()) * x, lambda: x)
        with tf.control_dependencies([taken, total]):
            grown = cut_one.assign_add(tf.fill([20, 30], x))
        init = v1.global_variables_initializer()
    item = item_of(graph, ("x:0",), (taken.name, total.name, asked.name, grown.name), {init.name})
    result = check_rewrite(SplitVariables(MAX_BYTES), item)
    for x_now in (-1.5, 2.0):
        feeds = {"x:0": np.float32(x_now)}
        assert same_bits(run(result.item, init.name, feeds), run(item, init.name, feeds))
    with session(result.item) as now:
        assert not now.run(asked.name)
        now.run(init.name)
        assert now.run(asked.name)
    wholes = plan_split(item, MAX_BYTES).whole
    assert [(whole.name, whole.reason.split()[-5]) for whole in wholes] == [
        ("b", "ResourceGather,"),
        ("c", "StatefulPartitionedCall,"),
        ("d", "Switch,"),
    ]
