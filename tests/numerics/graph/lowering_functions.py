"""Functions that Python calls, for TensorFlow to lower."""

from collections.abc import Callable
from typing import Any

Case = Callable[[Any], object]
CASES: dict[str, Case] = {}


def case(function: Case) -> Case:
    CASES[function.__name__] = function
    return function


@case
def generic_functions(tf: Any) -> None:
    """Functions over any type and over lists, which no Python API writes or imports today."""
    from google.protobuf import text_format
    from tensorflow.core.framework import function_pb2
    from tensorflow.python.eager import context, execute

    library = text_format.Parse(_GENERIC, function_pb2.FunctionDefLibrary())
    for function in library.function:
        context.context().add_function_def(function)
    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    attrs = ("executor_type", "", "config_proto", config.SerializeToString())
    execute.execute(b"Main", 1, [tf.constant(1.0)], attrs, context.context())


_GENERIC = """
function {
  signature { name: "Twice" input_arg { name: "x" type_attr: "T" } output_arg { name: "y" type_attr: "T" }
    attr { name: "T" type: "type" } }
  node_def { name: "add" op: "AddV2" input: "x" input: "x" attr { key: "T" value { placeholder: "T" } } }
  ret { key: "y" value: "add:z:0" }
}
function {
  signature { name: "Sum2" input_arg { name: "xs" type_attr: "T" number_attr: "N" }
    output_arg { name: "y" type_attr: "T" } attr { name: "T" type: "type" }
    attr { name: "N" type: "int" default_value { i: 2 } } }
  node_def { name: "sum" op: "AddN" input: "xs" attr { key: "T" value { placeholder: "T" } }
    attr { key: "N" value { placeholder: "N" } } }
  node_def { name: "again" op: "Twice" input: "sum:sum" input: "^xs"
    attr { key: "T" value { placeholder: "T" } } }
  ret { key: "y" value: "again:y" }
}
function {
  signature { name: "Pair" input_arg { name: "xs" type_list_attr: "Ts" }
    output_arg { name: "ys" type_list_attr: "Ts" } attr { name: "Ts" type: "list(type)" } }
  node_def { name: "same" op: "IdentityN" input: "xs" attr { key: "T" value { placeholder: "Ts" } } }
  ret { key: "ys" value: "same:output" }
}
function {
  signature { name: "Main" input_arg { name: "x" type: DT_FLOAT } output_arg { name: "y" type: DT_FLOAT } }
  node_def { name: "twice" op: "Twice" input: "x" attr { key: "T" value { type: DT_FLOAT } } }
  node_def { name: "sum" op: "Sum2" input: "x" input: "twice:y:0" input: "^twice"
    attr { key: "T" value { type: DT_FLOAT } } }
  node_def { name: "pair" op: "Pair" input: "x" input: "sum:y:0"
    attr { key: "Ts" value { list { type: DT_FLOAT type: DT_FLOAT } } } }
  ret { key: "y" value: "pair:ys:1" }
}
"""


@case
def function_on_devices(tf: Any) -> None:
    with tf.device("CPU:1"):
        v = tf.Variable(1.0)
    with tf.device("CPU:2"):
        w = tf.Variable([2.0, 3.0])

    @tf.function
    def step(x: Any, n: Any) -> object:
        total = tf.constant(0.0)
        for i in tf.range(n):
            with tf.device("CPU:1"):
                total += v * tf.cast(i, tf.float32)
            if total > 3.0:
                w.assign_add([1.0, total])
            else:
                v.assign_add(tf.reduce_sum(w))
        with tf.device("CPU:2"):
            return tf.cond(total > 1.0, lambda: x + w, lambda: x - w), total

    with tf.device("CPU:1"):
        x = tf.constant([1.0, 1.0])
    step(x, tf.constant(3))


@case
def function_gradient(tf: Any) -> None:
    with tf.device("CPU:1"):
        w = tf.Variable(tf.ones([2, 2]))

    @tf.function
    def step(x: Any) -> object:
        with tf.GradientTape() as tape:
            y = x
            for _ in tf.range(3):
                y = tf.tanh(tf.matmul(y, w))
                if tf.reduce_sum(y) > 1.0:
                    y = y * 0.5
            loss = tf.reduce_sum(y)
        gradient = tape.gradient(loss, w)
        w.assign_sub(0.1 * gradient)
        return loss

    step(tf.ones([1, 2]))


@case
def function_with_calls(tf: Any) -> None:
    v = tf.Variable(1.0)

    @tf.function
    def inner(x: Any) -> object:
        v.assign_add(x)
        return tf.map_fn(lambda a: a * v, tf.stack([x, x])), tf.scan(lambda a, b: a + b, tf.stack([x, x]))

    @tf.function
    def outer(x: Any) -> object:
        with tf.device("CPU:2"):
            a, b = inner(x)
        if x > 0.0:
            a, b = inner(x + 1.0)
        return tf.switch_case(tf.cast(x, tf.int32), [lambda: a, lambda: b, lambda: inner(x)[0]])

    outer(tf.constant(1.0))
    inner(tf.constant(2.0))


@case
def function_that_returns_its_arguments(tf: Any) -> None:
    @tf.function
    def step(x: Any, p: Any) -> object:
        with tf.device("CPU:1"):
            y, z, _ = tf.while_loop(
                lambda a, b, i: i < 3, lambda a, b, i: (b, a, i + 1), [x, x + 1.0, tf.constant(0)]
            )
        return x, tf.cond(p, lambda: (y, x), lambda: (x, z))

    with tf.device("CPU:2"):
        step(tf.constant(1.0), tf.constant(True))
