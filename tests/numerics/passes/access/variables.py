"""Steps that get at variables."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tests.numerics.graph.cut_graphs import control_flow
from tests.numerics.passes.access.step import SHAPE, Step, call, keys, raw, rows, step, subtract, v1, value


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
reading("gathered from what is read (`GatherV2`)", lambda h: tf.gather(value(h), [1, 3]))
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


@step("gathered from what is read (`GatherV2`), rows changed")
def _(made: Step) -> None:
    handle = made.variable()
    late = made.reads(tf.gather(value(handle), [3, 1, 3]))
    made.changes(raw.ResourceScatterSub(resource=handle, indices=[1, 3], updates=rows(late)))


@step("gathered from the parts of a variable (`tf.nn.embedding_lookup`)")
def _(made: Step) -> None:
    parts = [made.variable(name=name) for name in ("first", "second")]
    late = made.reads(v1.nn.embedding_lookup([value(part) for part in parts], [1, 30, 1], "div"))
    made.changes(*(raw.ResourceScatterSub(resource=h, indices=[1, 14], updates=rows(late)) for h in parts))
