"""Steps that get at state in every way that TensorFlow has, each as small as it can be."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tests.numerics.cut_graphs import control_flow

v1, raw = tf.compat.v1, tf.raw_ops
SHAPE = (16, 32)


@dataclass
class Step:
    """A step under construction: it reads something, takes its time, and then changes it."""

    folder: Path
    inits: list[Any] = field(default_factory=list)
    fetches: list[Any] = field(default_factory=list)
    change: Any = None
    reset: Callable[[], Any] = lambda: None

    def variable(self, value: Any = None, name: str = "v", **options: Any) -> Any:
        """Its handle; without a value it holds floats that are all different."""
        start = tf.constant(np.arange(512, dtype=np.float32).reshape(SHAPE) / 64 if value is None else value)
        handle = raw.VarHandleOp(
            dtype=start.dtype, name=name, **{"shared_name": name, "shape": start.shape, **options}
        )
        self.inits.append(raw.AssignVariableOp(resource=handle, value=start))
        return handle

    def reads(self, tensor: Any) -> Any:
        """The step gives this; a one that follows from it, and comes late."""
        self.fetches.append(tensor)
        square = tf.fill([400, 400], tf.reduce_sum(tf.cast(tensor, tf.float32)) * 1e-9)
        return tf.reduce_sum(square @ square @ square @ square) * 0 + 1

    def changes(self, *operations: Any) -> None:
        """What the step changes, after what it reads."""
        self.change = tf.group(*operations)


Build = Callable[[Step], None]
STEPS: dict[str, Build] = {}
"""By what a step does, in the words of `docs/access.md`."""


def step(name: str) -> Callable[[Build], Build]:
    def add(build: Build) -> Build:
        STEPS[name] = build
        return build

    return add


def value(handle: Any, dtype: Any = tf.float32) -> Any:
    return raw.ReadVariableOp(resource=handle, dtype=dtype)


def subtract(handle: Any, late: Any) -> Any:
    return raw.AssignSubVariableOp(resource=handle, value=tf.fill(SHAPE, late))


def keys(*numbers: int) -> Any:
    return tf.constant(numbers, tf.int64)


def reading(name: str, read: Callable[[Any], Any]) -> None:
    """A step that reads a variable so, and then subtracts from it."""

    @step(name)
    def _(made: Step) -> None:
        handle = made.variable()
        late = made.reads(read(handle))
        made.changes(subtract(handle, late))


def writing(name: str, write: Callable[[Any, Any], Any], start: Any = None) -> None:
    """A step that reads a variable, and then changes it so."""

    @step(name)
    def _(made: Step) -> None:
        handle = made.variable(start)
        dtype = tf.float32 if start is None else tf.constant(start).dtype
        late = made.reads(value(handle, dtype))
        with tf.control_dependencies([late]):
            made.changes(write(handle, late))


def call(body: Callable[..., Any], *inputs: Any) -> Any:
    return tf.function(body, autograph=False)(*inputs)


def passed(handle: Any) -> Any:
    return raw.Identity(input=raw.IdentityN(input=[handle])[0])


def branch(handle: Any) -> Any:
    with control_flow(1):
        return tf.cond(
            tf.size(raw.VariableShape(input=handle)) > 1, lambda: value(handle), lambda: tf.zeros(SHAPE)
        )


def loop(handle: Any) -> Any:
    with control_flow(1):
        return tf.while_loop(
            lambda i, _: i < 2, lambda i, t: (i + 1, t + value(handle)), (0, tf.zeros(SHAPE))
        )[1]


def if_v2(handle: Any) -> Any:
    with control_flow(2):
        return tf.cond(
            tf.size(raw.VariableShape(input=handle)) > 1, lambda: value(handle), lambda: tf.zeros(SHAPE)
        )


def while_v2(handle: Any) -> Any:
    with control_flow(2):
        return tf.while_loop(
            lambda i, _: i < 2, lambda i, t: (i + 1, t + value(handle)), (0, tf.zeros(SHAPE))
        )[1]


def case_v2(handle: Any) -> Any:
    with control_flow(2):
        return tf.switch_case(
            tf.size(raw.VariableShape(input=handle)) - 1, [lambda: tf.zeros(SHAPE), lambda: value(handle)]
        )


def by_name() -> Any:
    return raw.VarHandleOp(dtype=tf.float32, shape=SHAPE, shared_name="v")


def reduced(handle: Any) -> Any:
    """A dataset whose function reads the variable when it is reduced."""
    numbers = raw.RangeDataset(
        start=keys(0)[0], stop=keys(3)[0], step=keys(1)[0], output_types=[tf.int64], output_shapes=[[]]
    )
    add = tf.function(lambda i, h: tf.cast(i, tf.float32) + value(h)).get_concrete_function(
        tf.TensorSpec([], tf.int64), tf.TensorSpec([], tf.resource)
    )
    mapped = raw.MapDataset(
        input_dataset=numbers,
        other_arguments=[handle],
        f=add,
        output_types=[tf.float32],
        output_shapes=[SHAPE],
    )
    return raw.DatasetToSingleElement(
        dataset=raw.TakeDataset(
            input_dataset=mapped, count=keys(1)[0], output_types=[tf.float32], output_shapes=[SHAPE]
        ),
        output_types=[tf.float32],
        output_shapes=[SHAPE],
    )[0]


reading("`ReadVariableOp`", value)
reading("`ResourceGather`", lambda h: raw.ResourceGather(resource=h, indices=[1, 3], dtype=tf.float32))
reading("`ResourceGatherNd`", lambda h: raw.ResourceGatherNd(resource=h, indices=[[1, 3]], dtype=tf.float32))
reading("a handle through `Identity`", lambda h: value(passed(h)))
reading("read in a branch (`Switch`)", branch)
reading("read in a loop (`Enter`)", loop)
reading("read in `If`", if_v2)
reading("read in `While`", while_v2)
reading("read in `Case`", case_v2)
reading("read in a function", lambda h: call(lambda: value(h)))
reading("read in a function, by name", lambda _: call(lambda: value(by_name())))
reading("read by a dataset that the step reduces", reduced)
reading("a handle in `Pack`", lambda h: value(raw.Unpack(value=raw.Pack(values=[h]), num=1)[0]))
reading("a handle in `Select`", lambda h: value(raw.Select(condition=True, x=h, y=h)))
reading("`InplaceAdd` of what is read", lambda h: raw.InplaceAdd(x=value(h), i=[0], v=tf.ones([1, 32])))


def rows(late: Any, count: int = 2) -> Any:
    return tf.fill([count, 32], late)


def scatter(name: str) -> Callable[[Any, Any], Any]:
    return lambda h, late: getattr(raw, name)(resource=h, indices=[1, 3], updates=rows(late) * factor(name))


def scatter_nd(name: str) -> Callable[[Any, Any], Any]:
    return lambda h, late: getattr(raw, name)(ref=h, indices=[[1], [3]], updates=rows(late) * factor(name))


def factor(name: str) -> int:
    """By which an update changes the variable, whatever it does with it."""
    return -2 if name.endswith("Min") else 2


def branch_update(handle: Any, late: Any) -> Any:
    with control_flow(1):
        return tf.cond(late > 0, lambda: tied(subtract(handle, late)), lambda: late)


def loop_update(handle: Any, late: Any) -> Any:
    with control_flow(1):
        return tf.while_loop(lambda i: i < 2, lambda i: (tied(subtract(handle, late), i + 1),), (0,))


def tied(operation: Any, result: Any = 1.0) -> Any:
    with tf.control_dependencies([operation]):
        return tf.identity(result)


def while_update(handle: Any, late: Any) -> Any:
    with control_flow(2):
        return tf.while_loop(lambda i: i < 2, lambda i: (tied(subtract(handle, late), i + 1),), (0,))


def anew(handle: Any, late: Any) -> Any:
    """The variable is taken away, and made again."""
    with tf.control_dependencies([raw.DestroyResourceOp(resource=handle)]):
        there = raw.VarIsInitializedOp(resource=handle)
    with tf.control_dependencies([there]):
        return raw.AssignVariableOp(resource=handle, value=tf.fill(SHAPE, late + tf.cast(there, tf.float32)))


writing("`AssignVariableOp`", lambda h, late: raw.AssignVariableOp(resource=h, value=value(h) * 2 + late))
writing(
    "`AssignAddVariableOp`", lambda h, late: raw.AssignAddVariableOp(resource=h, value=tf.fill(SHAPE, late))
)
writing("`AssignSubVariableOp`", subtract)
writing(
    "`ResourceApplyGradientDescent`",
    lambda h, late: raw.ResourceApplyGradientDescent(var=h, alpha=0.5, delta=tf.fill(SHAPE, late)),
)
for _name in ("Add", "Sub", "Mul", "Div", "Min", "Max", "Update"):
    writing(f"`ResourceScatter{_name}`", scatter(f"ResourceScatter{_name}"))
for _name in ("Add", "Sub", "Min", "Max", "Update"):
    writing(f"`ResourceScatterNd{_name}`", scatter_nd(f"ResourceScatterNd{_name}"))
writing(
    "`ResourceStridedSliceAssign`",
    lambda h, late: raw.ResourceStridedSliceAssign(ref=h, begin=[1], end=[3], strides=[1], value=rows(late)),
)
writing(
    "`ResourceCountUpTo`", lambda h, _: raw.ResourceCountUpTo(resource=h, limit=99, T=tf.int32), np.int32(0)
)
writing("updated in a branch (`Switch`)", branch_update)
writing("updated in a loop (`Enter`)", loop_update)
writing("updated in `While`", while_update)
writing("updated in a function", lambda h, late: call(lambda: tied(subtract(h, late))))
writing(
    "updated in a function, by name",
    lambda _, late: call(lambda: tied(subtract(by_name(), late))),
)
writing("`DestroyResourceOp`, `VarIsInitializedOp`", anew)


@step("`VariableShape`")
def _(made: Step) -> None:
    handle = made.variable(np.zeros([2, 300], np.float32), shape=None)
    late = made.reads(raw.VariableShape(input=handle))
    grown = tf.concat([value(handle), tf.fill([1, 300], late)], 0)
    made.changes(raw.AssignVariableOp(resource=handle, value=grown))


@step("`ResourceApplyMomentum`, a slot of the same shape")
def _(made: Step) -> None:
    handle, slot = made.variable(), made.variable(name="slot")
    late = made.reads(value(handle))
    made.changes(
        raw.ResourceApplyMomentum(var=handle, accum=slot, lr=0.5, grad=tf.fill(SHAPE, late), momentum=0.5)
    )


@step("`ResourceApplyAdam`")
def _(made: Step) -> None:
    names = ("var", "m", "v")
    handles = {name: made.variable(name=name) for name in names}
    late = made.reads(value(handles["var"]))
    numbers = {"beta1_power": 0.9, "beta2_power": 0.9, "lr": 0.1, "beta1": 0.9, "beta2": 0.9, "epsilon": 0.1}
    made.changes(raw.ResourceApplyAdam(**handles, **numbers, grad=tf.fill(SHAPE, late)))


@step("`ResourceSparseApplyMomentum`")
def _(made: Step) -> None:
    handle, slot = made.variable(), made.variable(name="slot")
    late = made.reads(value(handle))
    made.changes(
        raw.ResourceSparseApplyMomentum(
            var=handle, accum=slot, lr=0.5, grad=rows(late), indices=[1, 3], momentum=0.5
        )
    )


def second(name: str, **options: Any) -> None:
    """A variable that is read through another handle than the one by which it is updated."""

    @step(name)
    def _(made: Step) -> None:
        first = {key: options[key] for key in options if key == "shared_name"}
        handle = made.variable(**first)
        other = raw.VarHandleOp(
            dtype=tf.float32, shape=SHAPE, name="other", **{"shared_name": "v", **options}
        )
        late = made.reads(value(other))
        made.changes(subtract(handle, late))


second("two handles of one name")
second("two handles without a name", shared_name="")
second("two handles, one with `container=localhost`", container="localhost")


def references(name: str, write: Callable[[Any, Any], Any], start: Any = None) -> None:
    @step(name)
    def _(made: Step) -> None:
        first = np.ones(SHAPE, np.float32) if start is None else start
        ref = raw.VariableV2(shape=first.shape, dtype=first.dtype, shared_name="v", name="v")
        made.inits.append(raw.Assign(ref=ref, value=first))
        late = made.reads(raw.Identity(input=ref))
        with tf.control_dependencies([late]):
            made.changes(write(ref, late))


references("`VariableV2`, `AssignSub`", lambda ref, late: raw.AssignSub(ref=ref, value=tf.fill(SHAPE, late)))
references(
    "`VariableV2`, `ApplyGradientDescent`",
    lambda ref, late: raw.ApplyGradientDescent(var=ref, alpha=0.5, delta=tf.fill(SHAPE, late)),
)
references(
    "`VariableV2`, `ScatterAdd`",
    lambda ref, late: raw.ScatterAdd(ref=ref, indices=[1, 3], updates=rows(late)),
)
references("`VariableV2`, `CountUpTo`", lambda ref, _: raw.CountUpTo(ref=ref, limit=99), np.int32(0))


@step("`TemporaryVariable`")
def _(made: Step) -> None:
    late = made.reads(tf.ones([2]))
    ref = raw.TemporaryVariable(shape=[2], dtype=tf.float32, var_name="t")
    made.changes(
        raw.DestroyTemporaryVariable(ref=raw.Assign(ref=ref, value=tf.fill([2], late)), var_name="t")
    )


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
