"""Staged steps against the same training without tfwave: losses, tables and slots bit for bit.

One test for each way in which pipelines of embeddings were seen to go wrong elsewhere: rows that change between
their prefetch and their use, last batches that are not trained, an exception in the input, a batch of another size,
evaluation between steps, a checkpoint in the middle.
"""

import os
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.numerics.embedding.embedding_job import (
    ROWS,
    SPEC,
    Job,
    Plain,
    ShardedVariable,
    batches,
    dataset,
    starts,
)
from tfwave.embedding import SGD, Adagrad, Table, staged
from tfwave.errors import GraphError, TfwaveError

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(180)]

STEPS = 3
"""In a call."""
PAGE = os.sysconf("SC_PAGE_SIZE")


def assert_same(job: Job, plain: Plain) -> None:
    assert job.losses == plain.losses
    assert job.state() == plain.state()


def test_the_rest_of_a_batch_leaves_when_the_server_has_taken_the_first() -> None:
    """A control edge from each server to what is sent to it, between each two batches."""
    call = next(Job(STEPS).staged.calls(dataset(batches(STEPS))))
    operations = call.function.get_concrete_function(*call.args).graph.get_operations()
    devices = [
        tf.DeviceSpec.from_string(before.device).device_index
        for op in operations
        if op.type == "Identity" and not op.device
        for before in op.control_inputs
    ]
    waits = [device for device in devices if device is not None]
    assert sorted(waits) == [1] * (STEPS - 1) + [2] * (STEPS - 1)


def test_200_staged_steps_give_the_bits_of_one_after_the_other() -> None:
    """Ids repeat in a batch and in the next ones, some batches have none, and most items never come."""
    job, plain = Job(STEPS), Plain()
    job.train(batches(200))
    plain.train(batches(200))
    assert_same(job, plain)
    moved = job.tables["items"].module.rows.numpy() != starts()["items"]
    assert moved[:12].all()
    assert not moved[12:].any()


def test_a_step_a_call_gives_the_same_bits() -> None:
    job, plain = Job(1), Plain()
    job.train(batches(12))
    plain.train(batches(12))
    assert_same(job, plain)


def test_sums_of_many_terms_have_the_bits_of_single_steps() -> None:
    """The gradient of what a step reads three times: TensorFlow's optimizer sorts the terms by their names."""

    def trained(steps: int) -> list[bytes]:
        draw = np.random.default_rng(3)
        rows = tf.Variable(draw.normal(size=(17, 33)).astype("f"))
        weight = tf.Variable(0.3 * draw.normal(size=(33, 33)).astype("f"))

        def step(embedded: Any, batch: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(embedded)
                hidden = batch + embedded["rows"]
                for _ in range(3):
                    hidden = tf.tanh(hidden @ weight)
                loss = tf.reduce_mean(hidden**2)
            of_rows, of_weight = tape.gradient(loss, (embedded, weight))
            weight.assign_sub(0.5 * of_weight)
            return weight.value(), of_rows

        given = tf.data.Dataset.from_tensors(({"rows": tf.range(17)}, tf.ones([17, 33]))).repeat(4)
        calls = staged(step, {"rows": Table(rows, SGD(0.5))}, steps=steps).calls(given)
        return [value.numpy().tobytes() for call in calls for value in call.function(*call.args)]

    assert trained(4) == trained(1)


@pytest.mark.parametrize(("steps", "old"), [(STEPS, 1), (5, 3), (STEPS, 2)])
def test_stale_rows_are_so_many_updates_old(steps: int, old: int) -> None:
    """But those that a call begins with."""
    job, plain, exact = Job(steps, staleness=old), Plain(steps, old=old), Plain()
    for trained in (job, plain, exact):
        trained.train(batches(40))
    assert_same(job, plain)
    assert job.losses != exact.losses


@pytest.mark.parametrize("count", [1, 4, 6])
def test_the_last_batches_are_trained(count: int) -> None:
    job, plain = Job(STEPS), Plain()
    job.train(batches(count))
    plain.train(batches(count))
    assert len(job.losses) == count
    assert_same(job, plain)


def test_an_empty_dataset_gives_no_call() -> None:
    assert list(Job(STEPS).staged.calls(dataset([]))) == []


@pytest.mark.parametrize("good", [0, 3, 5])
def test_an_exception_in_the_input_comes_behind_the_batches_before_it(good: int) -> None:
    job, plain = Job(STEPS), Plain()
    found = [*batches(good), ValueError("a broken record"), *batches(3)]
    with pytest.raises(tf.errors.InvalidArgumentError, match="a broken record"):
        job.train(found)
    plain.train(batches(good))
    assert_same(job, plain)


def test_an_id_without_a_row_is_refused_before_its_batch_is_trained() -> None:
    job, plain = Job(STEPS), Plain()
    found = batches(8)
    found[6][0]["items"][0] = 40
    with pytest.raises(TfwaveError, match="table 'items' has rows 0 to 39, and a batch asks for 40"):
        job.train(found)
    plain.train(found[:6])
    assert_same(job, plain)


def test_between_calls_the_tables_are_up_to_date() -> None:
    job, plain = Job(STEPS), Plain()
    done = 0
    for call in job.staged.calls(dataset(batches(10))):
        job.take(call)
        plain.train(batches(10)[done : done + call.steps])
        done += call.steps
        looked_up = tf.nn.embedding_lookup(job.users, tf.range(ROWS["users"]))
        assert looked_up.numpy().tobytes() == plain.state()["users"]
        assert_same(job, plain)


def test_a_checkpoint_between_calls_goes_on_where_it_was(tmp_path: Path) -> None:
    whole, first, second = Job(STEPS), Job(STEPS), Job(STEPS)
    whole.train(batches(11))

    def checkpoint(job: Job) -> Any:
        tables = {name: table.module for name, table in job.tables.items()}
        return tf.train.Checkpoint(weight=job.weight, **tables)

    calls = first.staged.calls(dataset(batches(11)))
    call = next(calls)
    first.take(call)
    saved = checkpoint(first).save(str(tmp_path / "kept"))
    next(calls)  # prepared, and never run
    checkpoint(second).restore(saved).assert_consumed()
    for call in second.staged.calls(dataset(batches(11)).skip(len(first.losses))):
        second.take(call)
    assert first.losses + second.losses == whole.losses
    assert second.state() == whole.state()


def test_a_checkpoint_has_plain_variables_of_the_whole_shape(tmp_path: Path) -> None:
    job = Job(STEPS)
    job.train(batches(4))
    saved = tf.train.Checkpoint(users=job.tables["users"].module, items=job.tables["items"].module).save(
        str(tmp_path / "kept")
    )
    whole = tf.Module()
    whole.rows = tf.Variable(tf.zeros([9, 4]))
    items = tf.Module()
    items.rows, items.accumulator = tf.Variable(tf.zeros([40, 4])), tf.Variable(tf.zeros([40, 4]))
    tf.train.Checkpoint(users=whole, items=items).restore(saved).assert_consumed()
    assert whole.rows.numpy().tobytes() == job.state()["users"]
    assert items.rows.numpy().tobytes() == job.state()["items"]
    assert items.accumulator.numpy().tobytes() == job.state()["items slot"]


def test_a_table_is_exported_by_stock_means(tmp_path: Path) -> None:
    job = Job(STEPS)
    job.train(batches(4))
    exported = tf.Module()
    exported.users, exported.items = job.users, job.tables["items"].module.rows

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32)])
    def look_up(ids: Any) -> Any:
        return tf.nn.embedding_lookup(exported.users, ids), tf.gather(exported.items, ids)

    exported.look_up = look_up
    tf.saved_model.save(exported, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    users, items = loaded.look_up(tf.range(9))
    assert users.numpy().tobytes() == job.state()["users"]
    assert items.numpy().tobytes() == job.state()["items"][: 9 * 4 * 4]


def small(optimizer: Any = None) -> Table:
    return Table(tf.Variable(tf.ones([4, 2]), name="small"), optimizer or SGD(0.1))


def keras_variable() -> Any:
    layer = keras.layers.Embedding(4, 2)
    layer.build()
    return layer.embeddings


def sharded() -> Any:
    return ShardedVariable([tf.Variable(tf.ones([2, 2])) for _ in range(2)], name="sharded")


def numbers(count: int = 2) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors(({"t": [0, 1]}, 1.0)).repeat(count)


def wrong_step(embedded: Any, batch: Any) -> Any:
    return batch, embedded["t"]


def unwatched(embedded: Any, batch: Any) -> Any:
    return batch, dict.fromkeys(embedded)


def turned(embedded: Any, batch: Any) -> Any:
    return batch, {"t": tf.transpose(embedded["t"][:, :1])}


def same_draws(embedded: Any, batch: Any) -> Any:
    return tf.random.uniform([], seed=1) * batch, embedded


@pytest.mark.parametrize(
    ("step", "error", "message"),
    [
        (wrong_step, TfwaveError, "must return its result and a dict of gradients by table, of t"),
        (unwatched, TfwaveError, "does not depend on the rows of table 't': call tape.watch"),
        (turned, TfwaveError, r"for table 't' has shape \(1, 2\), and its rows have \(2, 2\)"),
        (same_draws, GraphError, "is given a seed, and would draw the same numbers"),
    ],
)
def test_a_step_that_cannot_be_staged_is_refused(step: Any, error: type[Exception], message: str) -> None:
    call = next(staged(step, {"t": small()}, steps=2).calls(numbers()))
    with pytest.raises(error, match=message):
        call.function(*call.args)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tf.data.Dataset.from_tensors({"t": [0]}), "must have pairs"),
        (
            lambda: tf.data.Dataset.from_tensors(({"other": [0]}, 1.0)),
            "has ids for other, and the tables are t",
        ),
        (lambda: tf.data.Dataset.from_tensors(({"t": [0.0]}, 1.0)), "must be a tensor of integers"),
        (lambda: [1, 2], "must have pairs"),
    ],
)
def test_other_datasets_are_refused(make: Any, message: str) -> None:
    with pytest.raises(TfwaveError, match=message):
        next(staged(wrong_step, {"t": small()}).calls(make()))


class Halving:
    """An optimizer of one's own, which is no dataclass."""

    by_row = False
    apply = SGD.apply

    @property
    def slots(self) -> dict[str, float]:
        return {}

    def rate(self) -> float:
        return 0.5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Table(tf.Variable([1.0]), SGD(1)), r"float32 of shape \(1,\), and a table is"),
        (lambda: Table(tf.Variable([[1]]), SGD(1)), "is int32 of shape"),
        (lambda: Table(keras_variable(), SGD(1)), r"this is a keras\..*, and of a Keras variable its value"),
        (lambda: Table(tf.ones([4, 2]), SGD(1)), "a table is of tf.Variables, and this is a .*EagerTensor"),
        (
            lambda: Table([sharded()], SGD(1)),
            "ShardedVariable: give it by itself, not in a list; or make columns",
        ),
        (
            lambda: small(keras.optimizers.SGD(1.0)),
            "keras.*SGD updates no rows of a table: give tfwave.embedding",
        ),
        (lambda: small("adagrad"), "a builtins.str updates no rows"),
        (lambda: small(Halving()), r"the rate of a .*\.Halving is a function.* make the class a dataclass"),
        (lambda: SGD(-1), "rate must be >= 0, not -1"),
        (lambda: Adagrad(0.1, float("nan")), "initial_accumulator must be >= 0, not nan"),
        (lambda: Adagrad(0.1, epsilon="tiny"), "epsilon must be a number, not 'tiny'"),
        (
            lambda: staged(wrong_step, {"t": small()}, steps=3, staleness=3),
            "can be 0 to 2 updates old, not 3",
        ),
        (lambda: staged(wrong_step, {"t": small()}, steps=0), "cannot make 0 steps"),
        (lambda: staged(wrong_step, {}), "there is no table"),
        (
            lambda: staged(wrong_step, {"t": tf.ones([4, 2])}),
            "'t' is of type EagerTensor, and no table: give",
        ),
        (lambda: SGD(tf.Variable(0.1)), "without arguments, not <tf.Variable.*as lambda: schedule"),
        (lambda: SGD(keras.optimizers.schedules.CosineDecay(1, 10)), "without arguments, not <keras"),
        (lambda: staged(wrong_step, dict.fromkeys("ab", small())), "'a' and 'b' have the same variable"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Any, message: str) -> None:
    with pytest.raises(TfwaveError, match=message):
        make()


@pytest.mark.parametrize("hot_bytes", [0, 10**6])
def test_a_rate_that_a_function_gives_is_that_of_each_step(hot_bytes: int) -> None:
    """As it is before the step, in which the dense part's optimizer counts on."""
    done = tf.Variable(0.0)
    optimizers = {"a": SGD(lambda: 0.5**done), "b": Adagrad(lambda: 0.5**done, 0.0, 0.0)}
    tables = {name: Table(tf.Variable(np.zeros((3, 2), np.float32)), own) for name, own in optimizers.items()}

    def step(embedded: Any, batch: Any) -> Any:
        done.assign_add(1.0)
        return batch, {name: tf.ones_like(rows) for name, rows in embedded.items()}

    ids = [[0, 0], [0, 1], [2, 0], [0, 2]]
    data = tf.data.Dataset.from_tensor_slices((dict.fromkeys("ab", ids), [0.0] * len(ids)))
    for call in staged(step, tables, steps=3, hot_bytes=hot_bytes).calls(data):
        call.function(*call.args)
    by_sgd = -np.array([2 + 1 / 2 + 1 / 4 + 1 / 8, 1 / 2, 1 / 4 + 1 / 8], np.float32)
    np.testing.assert_array_equal(tables["a"].module.rows.numpy(), np.stack([by_sgd] * 2, 1))
    by_adagrad = -(1 / 4 + 1 / 8 / np.sqrt(2))  # the third row: its sums of squares are 1 and 2
    np.testing.assert_allclose(tables["b"].module.rows.numpy()[2], by_adagrad, rtol=1e-6)


def test_a_rate_is_one_number() -> None:
    table = small(SGD(lambda: [0.1, 0.2]))
    with pytest.raises(TfwaveError, match=r"rate of a table has shape \(2,\): have its function give one"):
        table.optimizer.apply(table.shards[0], (), tf.constant([0]), tf.ones([1, 2]))


def test_steps_that_run_eagerly_give_the_same_bits() -> None:
    """As for a debugger: `tf.config.run_functions_eagerly`."""
    eager, traced = Job(STEPS, hot_bytes=100), Job(STEPS, hot_bytes=100)
    traced.train(batches(4))
    calls = list(eager.staged.calls(dataset(batches(4))))
    tf.config.run_functions_eagerly(True)
    try:
        for call in calls:
            eager.take(call)
    finally:
        tf.config.run_functions_eagerly(False)
    assert eager.losses == traced.losses
    assert eager.state() == traced.state()


def test_what_a_call_asks_for_is_one_tensor_for_each_batch() -> None:
    """However many tables: each tensor is another message to the worker."""
    call = next(Job(STEPS).staged.calls(dataset(batches(STEPS))))
    handles, *_ = call.args
    assert [len(own) for own in handles] == [2] * STEPS


def test_a_batch_leaves_the_chief_when_the_rows_of_the_one_two_before_it_are_there() -> None:
    """A function's arguments travel before it begins; what these stand for does when it is read."""
    count = 5
    call = next(Job(count).staged.calls(dataset(batches(count))))
    graph = call.function.get_concrete_function(*call.args).graph
    places = {tensor.op: place // 2 for place, tensor in enumerate(graph.inputs[: 2 * count])}
    reads = [op for op in graph.get_operations() if op.type == "ReadVariableOp" and op.inputs[0].op in places]
    assert len(reads) == 2 * count

    def waits_for(op: Any) -> set[int]:
        """The batches that are read before."""
        seen, ahead = set[Any](), list(op.control_inputs)
        while ahead:
            if (before := ahead.pop()) not in seen:
                seen.add(before)
                ahead += [*before.control_inputs, *(tensor.op for tensor in before.inputs)]
        return {places[before] for before in seen if before in places}

    for read in reads:
        assert waits_for(read) == set(range(places[read.inputs[0].op] - 1))


def test_what_a_call_takes_lies_on_the_chief_in_no_shape_that_the_dataset_leaves_open() -> None:
    """TensorFlow would make the function ready anew for each other shape; wherever the loop says that it is."""
    with tf.device("CPU:1"):
        call = next(Job(STEPS).staged.calls(dataset(batches(STEPS))))
    (vector, batch), *_ = call.args[0]
    assert "Shape: [?]" in str(vector)
    assert "Shape: [?]" in str(batch)
    assert vector.device.endswith("CPU:0")


def test_a_step_gets_whatever_a_dataset_has() -> None:
    """Beside ids: tensors of any type, ragged and sparse ones, and none."""
    given = {
        "text": tf.constant(["a", "bc"]),
        "ragged": tf.ragged.constant([[1, 2], [3]]),
        "sparse": tf.sparse.from_dense([[0, 1], [2, 0]]),
        "none": None,
    }

    def step(embedded: Any, batch: Any) -> Any:
        assert batch["none"] is None
        return (batch["text"], batch["ragged"], tf.sparse.to_dense(batch["sparse"])), embedded

    elements = tf.data.Dataset.from_tensors(({"t": tf.constant([0, 1])}, given)).repeat(2)
    call = next(staged(step, {"t": small()}, steps=2).calls(elements))
    for text, ragged, sparse in call.function(*call.args):
        assert text.numpy().tolist() == [b"a", b"bc"]
        assert ragged.to_list() == [[1, 2], [3]]
        assert sparse.numpy().tolist() == [[0, 1], [2, 0]]


def test_what_a_call_takes_goes_with_it() -> None:
    """Steps of 8 MiB, of which the process keeps none."""
    elements = tf.data.Dataset.from_tensors(({"t": tf.constant([0, 1])}, tf.zeros([2, 2**20]))).repeat(60)
    train = staged(lambda embedded, batch: (batch[0, 0], embedded), {"t": small()}, steps=2)
    held = list[int]()
    for call in train.calls(elements):
        call.function(*call.args)
        held.append(int(Path("/proc/self/statm").read_text().split()[1]) * PAGE)
    assert held[-1] - held[2] < 2**27  # 448 MiB went by in between


def test_ids_and_batches_keep_their_static_shapes() -> None:
    seen: list[Any] = []

    def step(embedded: Any, batch: Any) -> Any:
        seen.append((embedded["users"].shape.rank, embedded["users"].shape[-1], batch.shape.rank))
        return tf.size(batch), embedded

    job = Job(STEPS)
    call = next(staged(step, job.tables).calls(dataset(batches(1))))
    assert SPEC[1].shape.rank == 1
    assert [np.asarray(size) for size in call.function(*call.args)] == [3]
    assert seen == [(3, 4, 1)]


def test_gradients_in_half_precision_reach_the_servers_as_numbers_of_the_table() -> None:
    """Of another type than the table's they would end the server's process."""

    def step(embedded: Any, batch: Any) -> Any:
        return batch, {"t": tf.cast(embedded["t"] * 0.3, tf.float16)}

    table = small()
    call = next(staged(step, {"t": table}, steps=1).calls(numbers()))
    graph = call.function.get_concrete_function(*call.args).graph
    given = [op.inputs[2].dtype for op in graph.get_operations() if op.type == "ResourceScatterNdSub"]
    assert set(given) == {tf.float32}
    call.function(*call.args)
    moved = np.float32(1) - np.float32(0.1) * np.float32(np.float16(np.float32(0.3)))
    assert table.shards[0].numpy().tolist() == [[moved] * 2] * 2 + [[1.0] * 2] * 2
