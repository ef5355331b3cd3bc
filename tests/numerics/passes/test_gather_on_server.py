"""Tables that are gathered from: the same losses, tables and slots bit for bit, or an error that names the node."""

import logging
from collections.abc import Callable
from typing import Any

import keras
import networkx as nx
import numpy as np
import pytest
import tensorflow as tf

from grappler_passes.gather_on_server import GatherOnServer
from tests.numerics.corpus.places import v1
from tests.numerics.corpus.sample import make_item
from tests.rewrites import check_rewrite, edges, graph_bytes
from tfwave.errors import EnforcerError, PassError
from tfwave.graph.item import GraphItem
from tfwave.passes.pipeline import Pipeline, Stage
from tfwave.runtime.live.grappler import in_grappler
from tfwave.runtime.live.install import install

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(60)]

ROWS, WIDTH = 40, 8
raw = tf.raw_ops
BATCHES = ([[3, 3, 5]], [[5, 3, 39], [0, 0, 0]], np.zeros((0, 3)), [[39, 1, 5]], [[1, 1, 1]])
"""Ids that repeat in a batch and across batches, and none at all."""
HEIGHTS = (25, 1, 14)
"""Of a table in parts; no batch has a row of the second."""
Update = Callable[[Any, Any, Any, Any], Any]


def scatter(table: Any, slot: Any, ids: Any, rows: Any) -> Any:
    del slot
    return raw.ResourceScatterSub(resource=table, indices=ids, updates=0.1 * rows)


def adagrad(table: Any, slot: Any, ids: Any, rows: Any) -> Any:
    return raw.ResourceSparseApplyAdagradV2(
        var=table, accum=slot, lr=0.1, epsilon=1e-7, grad=rows, indices=ids
    )


class Job:
    """A step of a Session that gathers from the value of a table, by two gathers, and updates its rows."""

    def __init__(self, update: Update, waits: bool = True) -> None:
        with tf.Graph().as_default() as graph:
            self.table, self.slot = self._variable("table"), self._variable("slot")
            ids = v1.placeholder(tf.int32, [None, 3], "ids")
            value = raw.ReadVariableOp(resource=self.table, dtype=tf.float32, name="read")
            rows = tf.gather(tf.identity(value), ids, name="rows")
            late = tf.gather(
                value, tf.reverse(ids, [0]), name="late"
            )  # nothing says that it is before the update
            loss = tf.reduce_sum(tf.sin(rows)) + tf.reduce_sum(late)
            flat = tf.reshape(ids, [-1])
            with tf.control_dependencies([value] if waits else []):
                train = update(self.table, self.slot, flat, tf.reshape(tf.cos(rows), [-1, WIDTH]))
            with tf.control_dependencies([train]):
                after = raw.ResourceGather(resource=self.table, indices=flat, dtype=tf.float32)
                self.fetches = [loss.name, after.name, self._all(self.slot), train.name]
        self.graph = graph
        data = graph.as_graph_def().SerializeToString()
        self.inits = ["table/init", "slot/init"]
        self.item = make_item(data, ["ids:0"], self.fetches, self.inits)

    def _variable(self, name: str, rows: int = ROWS) -> Any:
        with tf.device("CPU:0"):
            handle = raw.VarHandleOp(dtype=tf.float32, shape=(rows, WIDTH), shared_name=name, name=name)
            start = np.linspace(0.1, 1, rows * WIDTH, dtype=np.float32).reshape(rows, WIDTH)
            raw.AssignVariableOp(resource=handle, value=start, name=f"{name}/init")
        return handle

    def _all(self, handle: Any) -> str:
        return raw.ReadVariableOp(resource=handle, dtype=tf.float32).name

    def run(self, item: GraphItem, grappler: bool) -> list[bytes]:
        with tf.Graph().as_default() as graph:
            tf.graph_util.import_graph_def(v1.GraphDef.FromString(graph_bytes(item)), name="")
        config = v1.ConfigProto(operation_timeout_in_ms=20_000)
        config.graph_options.rewrite_options.disable_meta_optimizer = not grappler
        config.graph_options.rewrite_options.min_graph_nodes = -1
        with v1.Session(graph=graph, config=config) as session:
            session.run(self.inits)
            steps = [session.run(self.fetches, {"ids:0": ids}) for ids in BATCHES]
        return [np.asarray(value).tobytes() for step in steps for value in step[:-1]]


class PartedJob(Job):
    """A step that gathers from the concatenated parts of a table, and updates each by gradients of its own."""

    def __init__(self, number: Any = tf.int32) -> None:
        with tf.Graph().as_default() as graph:
            parts = [self._variable(f"part{k}", rows) for k, rows in enumerate(HEIGHTS)]
            ids = v1.placeholder(number, [None, 3], "ids")
            values = [raw.ReadVariableOp(resource=part, dtype=tf.float32) for part in parts]
            value = tf.concat([tf.identity(values[0]), *values[1:]], 0)
            rows = tf.gather(value, ids, name="rows")
            loss = tf.reduce_sum(tf.sin(rows)) + tf.reduce_sum(
                tf.gather(tf.identity(value), tf.reverse(ids, [0]), name="late")
            )
            gradients = tf.gradients(loss, values)
            with tf.control_dependencies(values):
                updates = [
                    raw.ResourceScatterSub(resource=part, indices=own.indices, updates=0.1 * own.values)
                    for part, own in zip(parts, gradients, strict=True)
                ]
            with tf.control_dependencies(updates):
                after = [self._all(part) for part in parts]
                self.fetches = [loss.name, *after, tf.no_op("train").name]
        self.inits = [f"part{k}/init" for k in range(len(parts))]
        data = graph.as_graph_def().SerializeToString()
        self.item = make_item(data, ["ids:0"], self.fetches, self.inits)


@pytest.mark.parametrize("update", [scatter, adagrad])
@pytest.mark.parametrize("waits", [True, False])
def test_losses_tables_and_slots_are_the_same(update: Update, waits: bool) -> None:
    job = Job(update, waits)
    result = check_rewrite(GatherOnServer(), job.item)
    before = nx.ancestors(edges(result.item.graph), job.item.fetches[3])
    assert {f"tfwave/gather_on_server/{gather}/rows" for gather in ("rows", "late")} <= before
    assert sum(node.op == "ResourceGather" for node in result.item.graph.node) == 3
    for grappler in (False, True):
        assert job.run(job.item, grappler) == job.run(result.item, grappler)


@pytest.mark.parametrize("number", [tf.int32, tf.int64])
def test_parts_of_a_table_have_the_same_bits(number: Any) -> None:
    """Each is gathered from where it lies, and none is read whole for it."""
    job = PartedJob(number)
    result = check_rewrite(GatherOnServer(), job.item)
    needed = nx.ancestors(edges(result.item.graph), job.item.fetches[0].partition(":")[0])
    ops = [node.op for node in result.item.graph.node if node.name in needed]
    assert ops.count("ResourceGather") == 2 * len(HEIGHTS)
    assert "ConcatV2" not in ops
    assert "ReadVariableOp" not in ops
    for grappler in (False, True):
        assert job.run(job.item, grappler) == job.run(result.item, grappler)


@pytest.mark.parametrize(("row", "part", "own"), [(ROWS, 2, 14), (-1, 0, -1)])
def test_an_id_that_no_part_has_is_an_error_that_names_the_gather(row: int, part: int, own: int) -> None:
    job = PartedJob()
    with tf.Graph().as_default() as graph:
        tf.graph_util.import_graph_def(
            v1.GraphDef.FromString(graph_bytes(GatherOnServer()(job.item).item)), name=""
        )
    with v1.Session(graph=graph) as session:
        session.run(job.inits)
        with pytest.raises(
            tf.errors.InvalidArgumentError,
            match=rf"(?s)gather_on_server/rows/rows_{part}.*= {own} is not in \[0, {HEIGHTS[part]}\)",
        ):
            session.run("rows:0", {"ids:0": [[1, 25, row]]})


def test_the_table_is_not_read_any_more() -> None:
    """What the fetches need of the rewritten graph."""
    item = GatherOnServer()(Job(scatter).item).item
    needed = tf.compat.v1.graph_util.extract_sub_graph(
        v1.GraphDef.FromString(graph_bytes(item)), [item.fetches[0].partition(":")[0], item.fetches[3]]
    )
    assert "read" not in {node.name for node in needed.node}


def test_ids_out_of_range_are_an_error_that_names_the_gather() -> None:
    job = Job(scatter)
    item = GatherOnServer()(job.item).item
    with tf.Graph().as_default() as graph:
        tf.graph_util.import_graph_def(v1.GraphDef.FromString(graph_bytes(item)), name="")
    with v1.Session(graph=graph) as session:
        session.run("table/init")
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=r"(?s)gather_on_server/rows/rows.*= 40 is not in \[0, 40\)"
        ):
            session.run("rows:0", {"ids:0": [[1, 2, ROWS]]})


def whole(table: Any, slot: Any, ids: Any, rows: Any) -> Any:
    del slot, ids
    return raw.AssignSubVariableOp(
        resource=table, value=tf.zeros((ROWS, WIDTH)) + tf.reduce_sum(rows), name="whole"
    )


def in_function(table: Any, slot: Any, ids: Any, rows: Any) -> Any:
    del slot

    @tf.function(autograph=False)
    def body(handle: Any) -> Any:
        raw.ResourceScatterSub(resource=handle, indices=ids, updates=rows)
        return tf.zeros(())

    return body(table).op


@pytest.mark.parametrize("update", [whole, in_function])
def test_a_table_that_may_be_changed_whole_is_refused_by_name(update: Update) -> None:
    with pytest.raises(
        PassError, match=r"may change all rows of the table that 'read' reads.*SGD or Adagrad"
    ):
        GatherOnServer()(Job(update).item)


def small(make: Callable[[Any, Any], list[Any]]) -> GraphItem:
    """A table, its value, and fetches that are made of these."""
    with tf.Graph().as_default() as graph:
        handle = raw.VarHandleOp(dtype=tf.float32, shape=(ROWS, WIDTH), shared_name="table", name="table")
        value = raw.ReadVariableOp(resource=handle, dtype=tf.float32, name="read")
        fetches = [fetch.name for fetch in make(handle, value)]
    return make_item(graph.as_graph_def().SerializeToString(), [], fetches, [])


def summed(handle: Any, value: Any) -> list[Any]:
    del handle
    return [tf.gather(value, [1, 1], name="rows"), tf.reduce_sum(value, name="sum")]


def fetched(handle: Any, value: Any) -> list[Any]:
    del handle
    return [tf.gather(value, [1, 1], name="rows"), value]


def other_axis(handle: Any, value: Any) -> list[Any]:
    del handle
    return [tf.gather(value, [1, 1], axis=1), tf.gather(value, [1, 1])]


def joined(handle: Any, value: Any) -> list[Any]:
    whole = tf.concat([value, raw.ReadVariableOp(resource=handle, dtype=tf.float32)], 0)
    return [tf.gather(whole, [1, 60], name="rows"), tf.reduce_sum(whole, name="sum")]


def of_unknown_rows(handle: Any, value: Any) -> list[Any]:
    del handle
    other = raw.VarHandleOp(dtype=tf.float32, shape=(None, WIDTH), shared_name="other")
    parts = [value, raw.ReadVariableOp(resource=other, dtype=tf.float32, name="tail")]
    return [tf.gather(tf.concat(parts, 0), [1, 60])]


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (summed, "'sum' (Sum) takes all of it"),
        (fetched, "'read' is fetched"),
        (other_axis, "'GatherV2'"),
        (joined, "'sum' (Sum) takes all of it"),
        (of_unknown_rows, "not say how many rows 'tail' has"),
    ],
)
def test_what_is_needed_whole_is_sent_whole_and_a_remark_says_why(make: Any, why: str) -> None:
    result = check_rewrite(GatherOnServer(), small(make))
    assert not result.changed
    (remark,) = result.remarks
    assert why in remark


def beside(handle: Any, value: Any) -> list[Any]:
    """Columns, and a part that is taken by itself, too."""
    parts = [value, raw.ReadVariableOp(resource=handle, dtype=tf.float32)]
    return [
        tf.gather(tf.concat(parts, 1), [1]),
        tf.gather(tf.concat([value, value], 0), [1]),
        tf.reduce_sum(value),
    ]


def test_parts_that_something_takes_by_themselves_are_left_alone() -> None:
    assert not check_rewrite(GatherOnServer(), small(beside)).changed


def unordered(handle: Any, value: Any) -> list[Any]:
    row = raw.ResourceScatterSub(resource=handle, indices=[1], updates=tf.ones((1, WIDTH)), name="racing")
    return [tf.gather(value, [1, 1], name="rows"), row]


def circular(handle: Any, value: Any) -> list[Any]:
    del handle
    with tf.control_dependencies([value]):
        ids = tf.constant([1, 2]) + tf.constant(1)
    return [tf.gather(value, ids, name="rows")]


@pytest.mark.parametrize(
    ("make", "said"), [(unordered, "node 'racing'"), (circular, "makes the ids of 'rows'")]
)
def test_what_rows_cannot_be_ordered_with_is_refused_by_name(make: Any, said: str) -> None:
    with pytest.raises(PassError, match=said):
        GatherOnServer()(small(make))


def model(optimizer: Any) -> Any:
    keras.utils.set_random_seed(1)
    made = keras.Sequential(
        [
            keras.Input((3,), dtype="int32"),
            keras.layers.Embedding(ROWS, WIDTH),
            keras.layers.Flatten(),
            keras.layers.Dense(1),
        ]
    )
    made.compile(optimizer, "mse")
    made.optimizer.build(made.trainable_variables)
    return made


def trained(optimizer: Any, *passes: GatherOnServer) -> list[bytes]:
    made = model(optimizer)
    both = [made.train_step] * 2  # the second step gathers what the first one has updated
    step = tf.function(lambda x, y: [train((x, y))["loss"] for train in both], reduce_retracing=True)
    batches = [tf.constant(np.array(ids).reshape(-1, 3), tf.int32) for ids in BATCHES if len(ids)]

    def losses() -> list[Any]:
        return [step(ids, tf.ones((len(ids), 1))) for ids in batches]

    if passes:
        with install(step, *passes):
            found = losses()
            names = [op.name for c in step._list_all_concrete_functions() for op in c.graph.get_operations()]
            assert any("gather_on_server" in name for name in names)
    else:
        found = losses()
    return [np.asarray(value).tobytes() for value in (*found, *made.get_weights(), *made.optimizer.variables)]


@pytest.mark.parametrize("optimizer", [keras.optimizers.SGD, keras.optimizers.Adagrad])
def test_a_keras_model_trains_the_same(optimizer: Any) -> None:
    assert trained(optimizer(0.1)) == trained(optimizer(0.1), GatherOnServer())


def test_what_the_pass_remarks_of_a_function_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with tf.device("CPU:0"):
        table = tf.Variable(tf.ones((ROWS, WIDTH)))

    @tf.function(autograph=False)
    def step(ids: Any) -> Any:
        value = table.read_value()
        return tf.gather(value, ids) + tf.reduce_sum(value)

    with caplog.at_level(logging.INFO, "tfwave"), install(step, GatherOnServer()):
        step(tf.constant([1, 1]))
    (said,) = caplog.messages
    assert said.startswith("tfwave: gather_on_server: the table that '")
    assert "is sent whole" in said


def test_adam_is_refused_with_the_way_out() -> None:
    with pytest.raises(PassError, match="as Adam and momentum do: train the table by SGD or Adagrad"):
        trained(keras.optimizers.Adam(0.1), GatherOnServer())


def run_pruned(update: Update) -> list[bytes]:
    """A function of which no returned tensor waits for its update: the rows that it gathers, and the table then."""
    with tf.device("CPU:0"):
        table = tf.Variable(tf.reshape(tf.linspace(0.1, 1.0, ROWS * WIDTH), (ROWS, WIDTH)))

    def step(ids: Any, others: Any) -> None:
        value = raw.ReadVariableOp(resource=table.handle, dtype=tf.float32, name="read")
        tf.gather(value, others, name="late")
        with tf.control_dependencies([value]):
            tf.group(update(table.handle, None, ids, tf.gather(value, ids, name="own")), name="train")

    graph = (wrapped := v1.wrap_function(step, [tf.TensorSpec([2], tf.int32)] * 2)).graph
    fetches = [graph.get_tensor_by_name("late:0"), graph.get_operation_by_name("train")]
    late, _ = wrapped.prune(wrapped.inputs[:2], fetches)(tf.constant([1, 2]), tf.constant([2, 3]))
    return [late.numpy().tobytes(), table.numpy().tobytes()]


def test_in_grappler_an_update_waits_for_the_rows_of_gathers_that_it_does_not_need() -> None:
    expected, stages = run_pruned(scatter), list[Stage]()
    with in_grappler(Pipeline((GatherOnServer(),), (stages.append,))):
        assert run_pruned(scatter) == expected
    (made,) = [stage.result.item for stage in stages if stage.result.changed]
    (writer,) = [node.name for node in made.graph.node if node.op == "ResourceScatterSub"]
    gathers = {node.name for node in made.graph.node if node.op == "ResourceGather"}
    assert len(gathers) == 2
    assert gathers <= nx.ancestors(edges(made.graph), writer)


def test_in_grappler_a_function_that_changes_a_table_whole_is_refused_and_runs_as_it_is() -> None:
    expected = run_pruned(whole)
    with (
        pytest.raises(EnforcerError, match="may change all rows of the table"),
        in_grappler(GatherOnServer()),
    ):
        assert run_pruned(whole) == expected
