"""Steps that get at tables, queues, iterators, random state, files, and what else outlives a step."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from tests.numerics.passes.access.step import SHAPE, Step, call, keys, raw, step, subtract, v1, value


def tables(name: str, make: Callable[[], Any], other: Callable[[], Any] | None = None) -> None:
    """A table that counts by one key; the step finds it by `other`, if that is given."""

    @step(name)
    def _(made: Step) -> None:
        table = make()
        find, insert = (
            (raw.LookupTableFindV2, raw.LookupTableInsertV2)
            if table.dtype == tf.resource
            else (raw.LookupTableFind, raw.LookupTableInsert)
        )
        made.inits.append(insert(table_handle=table, keys=keys(1), values=[2.0]))
        found = find(table_handle=other() if other else table, keys=keys(1), default_value=0.0)
        late = made.reads(found)
        made.changes(insert(table_handle=table, keys=keys(1), values=found + late))


KINDS: dict[str, Any] = {"key_dtype": tf.int64, "value_dtype": tf.float32}
tables("`LookupTable...V2`", lambda: raw.MutableHashTableV2(**KINDS))
tables(
    "a table by another op of its name",
    lambda: raw.MutableHashTableV2(**KINDS, shared_name="t"),
    lambda: raw.HashTableV2(**KINDS, shared_name="t"),
)
tables("a table by reference", lambda: raw.MutableHashTable(**KINDS))


@step("`FIFOQueueV2`")
def _(made: Step) -> None:
    queue = raw.FIFOQueueV2(component_types=[tf.float32])
    made.inits.append(raw.QueueEnqueueManyV2(handle=queue, components=[tf.range(9.0)]))
    got = raw.QueueDequeueV2(handle=queue, component_types=[tf.float32])[0]
    late = made.reads(got)
    made.changes(raw.QueueEnqueueV2(handle=queue, components=[got * 2 + late]))


@step("a queue by reference")
def _(made: Step) -> None:
    queue = raw.FIFOQueue(component_types=[tf.float32])
    made.inits.append(raw.QueueEnqueueMany(handle=queue, components=[tf.range(9.0)]))
    got = raw.QueueDequeue(handle=queue, component_types=[tf.float32])[0]
    late = made.reads(got)
    made.changes(raw.QueueEnqueue(handle=queue, components=[got * 2 + late]))


@step("`RandomShuffleQueueV2`")
def _(made: Step) -> None:
    queue = raw.RandomShuffleQueueV2(component_types=[tf.float32], seed=3, seed2=4)
    made.inits.append(raw.QueueEnqueueManyV2(handle=queue, components=[tf.range(9.0)]))
    got = raw.QueueDequeueV2(handle=queue, component_types=[tf.float32])[0]
    late = made.reads(got)
    made.changes(raw.QueueEnqueueV2(handle=queue, components=[got * 2 + late]))


@step("`StackV2`, `TensorArrayV3`")
def _(made: Step) -> None:
    handle = made.variable()
    stack = raw.StackV2(max_size=3, elem_type=tf.float32, stack_name="s")
    with tf.control_dependencies([raw.StackPushV2(handle=stack, elem=value(handle))]):
        popped = raw.StackPopV2(handle=stack, elem_type=tf.float32)
    array, flow = raw.TensorArrayV3(size=1, dtype=tf.float32, tensor_array_name="a")
    written = raw.TensorArrayWriteV3(handle=array, index=0, value=popped, flow_in=flow)
    late = made.reads(raw.TensorArrayReadV3(handle=array, index=0, flow_in=written, dtype=tf.float32))
    made.changes(subtract(handle, late))


@step("`ResourceConditionalAccumulator`")
def _(made: Step) -> None:
    sums = raw.ResourceConditionalAccumulator(dtype=tf.float32, shape=[2])
    handle = made.variable()
    late = made.reads(value(handle))
    applied = raw.ResourceAccumulatorApplyGradient(handle=sums, local_step=99, gradient=tf.fill([2], late))
    with tf.control_dependencies([applied]):
        taken = raw.ResourceAccumulatorTakeGradient(handle=sums, num_required=1, dtype=tf.float32)
    made.changes(subtract(handle, taken[0]))


@step("`ConditionalAccumulator`")
def _(made: Step) -> None:
    sums = raw.ConditionalAccumulator(dtype=tf.float32, shape=[2])
    late = made.reads(tf.ones([2]))
    applied = raw.AccumulatorApplyGradient(handle=sums, local_step=99, gradient=tf.fill([2], late))
    with tf.control_dependencies([applied]):
        made.changes(raw.AccumulatorTakeGradient(handle=sums, num_required=1, dtype=tf.float32))


@step("`Barrier`")
def _(made: Step) -> None:
    barrier = raw.Barrier(component_types=[tf.float32], shapes=[[]])
    late = made.reads(tf.ones([2]))
    given = raw.BarrierInsertMany(handle=barrier, keys=["a"], values=tf.fill([1], late), component_index=0)
    with tf.control_dependencies([given]):
        made.changes(raw.BarrierTakeMany(handle=barrier, num_elements=1, component_types=[tf.float32])[0])


@step("`MutexV2`")
def _(made: Step) -> None:
    handle = made.variable()
    lock = raw.MutexLock(mutex=raw.MutexV2(shared_name="lock"))
    with tf.control_dependencies([lock]):
        late = made.reads(value(handle))
    changed = subtract(handle, late)
    with tf.control_dependencies([changed]):
        made.changes(raw.ConsumeMutexLock(mutex_lock=lock))


def dataset(function: Callable[[Any], Any] | None = None) -> Any:
    numbers = tf.data.Dataset.range(99)
    return numbers if function is None else numbers.map(function, num_parallel_calls=None)


@step("`IteratorGetNext`")
def _(made: Step) -> None:
    handle = made.variable()
    iterator = v1.data.make_initializable_iterator(dataset())
    made.inits.append(iterator.initializer)
    late = made.reads(iterator.get_next())
    made.changes(subtract(handle, late))


@step("an iterator by another op of its name")
def _(made: Step) -> None:
    iterator = v1.data.make_initializable_iterator(dataset(), shared_name="it")
    made.inits.append(iterator.initializer)
    other = raw.Iterator(shared_name="it", container="", output_types=[tf.int64], output_shapes=[[]])
    late = made.reads(iterator.get_next())
    with tf.control_dependencies([late]):
        made.changes(raw.IteratorGetNext(iterator=other, output_types=[tf.int64], output_shapes=[[]]))


@step("an iterator by its string")
def _(made: Step) -> None:
    iterator = v1.data.make_initializable_iterator(dataset(), shared_name="it")
    made.inits.append(iterator.initializer)
    late = made.reads(iterator.get_next())
    with tf.control_dependencies([late]):
        found = raw.IteratorFromStringHandle(string_handle=iterator.string_handle())
        made.changes(raw.IteratorGetNext(iterator=found, output_types=[tf.int64], output_shapes=[[]]))


@step("an iterator by its string, in a function")
def _(made: Step) -> None:
    iterator = v1.data.make_initializable_iterator(dataset(), shared_name="it")
    made.inits.append(iterator.initializer)
    late = made.reads(iterator.get_next())

    def following(text: Any) -> Any:
        found = raw.IteratorFromStringHandle(string_handle=text)
        return raw.IteratorGetNext(iterator=found, output_types=[tf.int64], output_shapes=[[]])

    with tf.control_dependencies([late]):
        made.changes(call(following, iterator.string_handle()))


@step("an iterator whose dataset reads a variable")
def _(made: Step) -> None:
    variable = v1.Variable(np.ones(SHAPE, np.float32), use_resource=True, name="v")
    made.inits.append(variable.initializer)
    iterator = v1.data.make_initializable_iterator(dataset(lambda i: tf.cast(i, tf.float32) + variable))
    made.inits.append(iterator.initializer)
    late = made.reads(iterator.get_next())
    made.changes(subtract(variable.handle, late))


@step("an iterator that is made in the step")
def _(made: Step) -> None:
    handle = made.variable()
    iterator = raw.IteratorV2(
        shared_name="it", container="", output_types=[tf.float32], output_shapes=[SHAPE]
    )
    data = raw.TensorDataset(components=[value(handle)], output_shapes=[SHAPE])
    with tf.control_dependencies([raw.MakeIterator(dataset=data, iterator=iterator)]):
        got = raw.IteratorGetNext(iterator=iterator, output_types=[tf.float32], output_shapes=[SHAPE])[0]
    late = made.reads(got)
    made.changes(subtract(handle, late))


@step("an iterator whose dataset calls Python")
def _(made: Step) -> None:
    seen = [0]
    made.reset = lambda: seen.__setitem__(0, 0)

    def count(_: Any) -> Any:
        seen[0] += 1
        return np.int64(seen[0])

    data = dataset(lambda i: tf.numpy_function(count, [i], tf.int64))
    iterator = v1.data.make_initializable_iterator(data)
    made.inits.append(iterator.initializer)
    late = made.reads(iterator.get_next())
    made.changes(tf.numpy_function(count, [late], tf.int64))


@step("a generator's state (`RngReadAndSkip`)")
def _(made: Step) -> None:
    state = made.variable(np.array([1, 2, 3], np.int64))
    got = raw.RngReadAndSkip(resource=state, alg=1, delta=tf.constant(5, tf.uint64))
    late = made.reads(got)
    with tf.control_dependencies([late]):
        made.changes(raw.RngSkip(resource=state, algorithm=1, delta=1))


@step("a generator's state (`StatefulUniform`)")
def _(made: Step) -> None:
    state = made.variable(np.array([1, 2, 3], np.int64))
    late = made.reads(raw.StatefulUniform(resource=state, algorithm=1, shape=[3]))
    with tf.control_dependencies([late]):
        made.changes(raw.StatefulUniform(resource=state, algorithm=1, shape=[3]))


def drawing(name: str, draw: Callable[[], Any]) -> None:
    @step(name)
    def _(made: Step) -> None:
        handle = made.variable()
        late = made.reads(draw())
        made.changes(subtract(handle, late))


drawing(
    "a random op with seeds, of a fixed shape", lambda: raw.RandomUniform(shape=[3], dtype=tf.float32, seed=3)
)
drawing(
    "a random op with seeds, of what the step computes",
    lambda: raw.RandomShuffle(value=raw.RandomUniform(shape=[9], dtype=tf.float32, seed=3), seed=4),
)
drawing(
    "a random op with seeds, in a function",
    lambda: call(lambda: raw.RandomUniform(shape=[3], dtype=tf.float32, seed=3)),
)


@step("`RecordInput`")
def _(made: Step) -> None:
    path = made.folder / "records"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for number in range(40):
            writer.write(b"%d" % number)
    records = raw.RecordInput(
        file_pattern=str(path), file_random_seed=3, file_buffer_size=1, file_parallelism=1, batch_size=2
    )
    made.changes(made.reads(tf.strings.to_number(records)))


@step("`PyFunc`, `EagerPyFunc`")
def _(made: Step) -> None:
    seen = [0.0]
    made.reset = lambda: seen.__setitem__(0, 0.0)

    def count(by: Any) -> Any:
        seen[0] += float(by)
        return np.float32(seen[0])

    late = made.reads(v1.py_func(count, [0.0], tf.float32, stateful=True))
    made.changes(tf.py_function(count, [late], tf.float32))


@step("`WriteFile`, `ReadFile`")
def _(made: Step) -> None:
    path = made.folder / "file"
    made.reset = partial(path.write_text, "1")
    name = value(made.variable(str(path), "name"), tf.string)
    read = tf.strings.to_number(raw.ReadFile(filename=name))
    late = made.reads(read)
    made.changes(raw.WriteFile(filename=str(path), contents=tf.strings.as_string(read + late)))


@step("`SaveV2`, `RestoreV2`")
def _(made: Step) -> None:
    path = str(made.folder / "saved")

    def save(handle: Any) -> Any:
        return raw.SaveV2(prefix=path, tensor_names=["v"], shape_and_slices=[""], tensors=[value(handle)])

    handle = made.variable()
    with tf.control_dependencies([made.inits[-1]]):
        made.inits.append(save(handle))
    restored = raw.RestoreV2(prefix=path, tensor_names=["v"], shape_and_slices=[""], dtypes=[tf.float32])[0]
    late = made.reads(restored)
    with tf.control_dependencies([late]):
        changed = raw.AssignVariableOp(resource=handle, value=restored * 2)
    with tf.control_dependencies([changed]):
        made.changes(save(handle))


@step("`Print`, `Assert`, `CheckNumerics`")
def _(made: Step) -> None:
    handle = made.variable()
    read = raw.CheckNumerics(tensor=value(handle), message="")
    late = made.reads(raw.Print(input=read, data=[], message="", first_n=0))
    with tf.control_dependencies([raw.Assert(condition=True, data=[late])]):
        made.changes(subtract(handle, late))


@step("`Stage`, `Unstage`")
def _(made: Step) -> None:
    name = {"shared_name": "stage"}
    made.inits.append(raw.Stage(values=[tf.zeros([])], **name))
    got = raw.Unstage(dtypes=[tf.float32], **name)[0]
    late = made.reads(got)
    made.changes(raw.Stage(values=[got + late], **name))


@step("`AddSparseToTensorsMap`, `TakeManySparseFromTensorsMap`")
def _(made: Step) -> None:
    handle = made.variable()
    late = made.reads(value(handle))
    sparse = raw.AddSparseToTensorsMap(
        sparse_indices=[[tf.constant(0, tf.int64)]], sparse_values=tf.fill([1], late), sparse_shape=keys(1)
    )
    taken = raw.TakeManySparseFromTensorsMap(
        sparse_handles=[sparse], dtype=tf.float32, shared_name=sparse.op.name
    )
    made.changes(subtract(handle, tf.reduce_sum(taken.sparse_values)))


@step("`MapStage`, `MapUnstage`")
def _(made: Step) -> None:
    name = {"shared_name": "stage", "dtypes": [tf.float32]}
    made.inits.append(raw.MapStage(key=keys(1)[0], indices=[0], values=[tf.zeros([])], **name))
    got = raw.MapUnstage(key=keys(1)[0], indices=[0], **name)[0]
    late = made.reads(got)
    made.changes(raw.MapStage(key=keys(1)[0], indices=[0], values=[got + late], **name))


@step("`Batch`, `Unbatch`")
def _(made: Step) -> None:
    handle = made.variable()
    late = made.reads(value(handle))
    batches, index, key = raw.Batch(
        in_tensors=[tf.fill([1, 1], late)],
        num_batch_threads=1,
        max_batch_size=4,
        batch_timeout_micros=100,
        grad_timeout_micros=100,
        allowed_batch_sizes=[],
    )
    one = raw.Unbatch(batched_tensor=batches[0], batch_index=index, id=key, timeout_micros=1000000)
    made.changes(subtract(handle, tf.reduce_sum(one)))


@step("`GetSessionHandle`")
def _(made: Step) -> None:
    handle = made.variable()
    late = made.reads(value(handle))
    made.changes(
        subtract(handle, late), raw.GetSessionHandle(value=late), raw.GetSessionHandleV2(value=late).op
    )


@step("a summary writer")
def _(made: Step) -> None:
    handle = made.variable()
    writer = raw.SummaryWriter(shared_name="writer")
    made.inits.append(
        raw.CreateSummaryFileWriter(
            writer=writer, logdir=str(made.folder), max_queue=1, flush_millis=1, filename_suffix=""
        )
    )
    late = made.reads(value(handle))
    written = raw.WriteScalarSummary(writer=writer, step=keys(1)[0], tag="t", value=late)
    with tf.control_dependencies([written]):
        made.changes(subtract(handle, late))
