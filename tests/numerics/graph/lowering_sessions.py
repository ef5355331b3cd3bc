"""Session graphs for TensorFlow to lower."""

from collections.abc import Callable
from typing import Any

CPUS = 3

Case = Callable[[Any], object]
CASES: dict[str, Case] = {}


def _run(tf: Any, fetches: Any, *, inline_calls: bool = False, setup: Any = None) -> None:
    """Run the default graph in a Session, Grappler off."""
    config = tf.compat.v1.ConfigProto(device_count={"CPU": CPUS}, allow_soft_placement=True)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.do_function_inlining = inline_calls
    with tf.compat.v1.Session(config=config) as session:
        if setup is not None:
            session.run(setup)
        session.run(fetches)


def session_case(function: Case) -> Case:
    """A case that builds a graph and returns what to fetch; a name that ends in ``inlined`` inlines all calls."""

    def run(tf: Any) -> None:
        tf.compat.v1.enable_control_flow_v2()
        with tf.Graph().as_default():
            fetches = function(tf)
            setup = tf.compat.v1.global_variables_initializer()
            _run(tf, fetches, inline_calls=function.__name__.endswith("inlined"), setup=setup)

    CASES[f"session_{function.__name__}"] = run
    return function


@session_case
def loop(tf: Any) -> object:
    return tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 2.0), [tf.constant(0), tf.ones([2])])


@session_case
def loop_gradient(tf: Any) -> object:
    x = tf.ones([2])
    _, y = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, tf.tanh(a * x)), [tf.constant(0), x])
    return tf.gradients(tf.reduce_sum(y), x)


@session_case
def nested_loops(tf: Any) -> object:
    def inner(j: Any, b: Any) -> object:
        return j + 1, tf.cond(b > 3.0, lambda: b * 0.5, lambda: tf.sin(b) + 2.0)

    def outer(i: Any, a: Any) -> object:
        return i + 1, tf.while_loop(lambda j, b: j < i, inner, [tf.constant(0), a + 1.0])[1]

    x = tf.constant(1.0)
    y = tf.while_loop(lambda i, a: i < 4, outer, [tf.constant(0), x])[1]
    return y, tf.gradients(y, x)


@session_case
def loop_with_resources_and_control_edges(tf: Any) -> object:
    with tf.device("/cpu:1"):
        v = tf.compat.v1.get_variable("v", [], use_resource=True, initializer=tf.zeros_initializer())
    with tf.device("/cpu:2"):
        first = tf.compat.v1.assign_add(v, 1.0)

    def body(i: Any) -> object:
        with tf.control_dependencies([v.assign_add(0.25)]):
            return tf.identity(i) + 1

    with tf.control_dependencies([first]):
        end = tf.while_loop(lambda i: i < tf.cast(v, tf.int32), body, [tf.constant(0)], parallel_iterations=1)
    with tf.control_dependencies(tf.nest.flatten(end)), tf.device("/cpu:1"):
        return v.read_value(), tf.no_op()


@session_case
def branches(tf: Any) -> object:
    x = tf.constant([1.0, 2.0])
    p = tf.reduce_sum(x) > 2.0
    with tf.device("/cpu:1"):
        y, z = tf.cond(p, lambda: (x + 1.0, tf.constant(3)), lambda: (x - 1.0, tf.constant(4)))
    return y, z, tf.gradients(y, x)


@session_case
def branches_for_their_effects(tf: Any) -> object:
    v = tf.compat.v1.get_variable("v", [], use_resource=True, initializer=tf.zeros_initializer())

    def then_branch() -> object:
        with tf.device("/cpu:2"):
            return v.assign_add(1.0).op

    done = tf.cond(v > 1.0, then_branch, tf.no_op)
    with tf.control_dependencies([done]):
        return v.read_value(), done


@session_case
def colocated_branches(tf: Any) -> object:
    with tf.device("/cpu:1"):
        x = tf.constant(1.0)

    def then_branch() -> object:
        y = x + 1.0
        with tf.compat.v1.colocate_with(y):
            z = y * 2.0
        with tf.compat.v1.colocate_with(x):
            return z + 1.0

    with tf.compat.v1.colocate_with(x):
        return tf.cond(x > 0.0, then_branch, lambda: x)


@session_case
def case_of_four(tf: Any) -> object:
    x = tf.constant([1.0, 2.0])
    with tf.device("/cpu:2"):
        i = tf.constant(2)
    with tf.compat.v1.colocate_with(i):
        y = tf.switch_case(i, [lambda k=k: x * float(k) for k in range(4)])
    return y, tf.gradients(y, x)


@session_case
def devices_in_branches(tf: Any) -> object:
    with tf.device("/job:localhost/cpu:1"):
        x = tf.constant(1.0)

    def then_branch() -> object:
        with tf.device("/device:CPU:2"):
            y = x * 2.0
        with tf.device("/replica:0"):
            y = y + 1.0
        with tf.device("/gpu:*"):
            y = y + 1.0
        with tf.device("/job:localhost/task:0/device:CPU:*"):
            return y + 2.0

    with tf.device("/job:localhost/task:0/cpu:1"):
        return tf.cond(x > 0.0, then_branch, lambda: x - 1.0)


def _calls(tf: Any) -> object:
    @tf.function
    def inner(x: Any, y: Any) -> object:
        with tf.device("/cpu:2"):
            z = x * y
        return z, tf.constant(3.0) + x

    @tf.function
    def outer(x: Any) -> object:
        a, b = inner(x, x + 1.0)
        tf.print(a)
        return tf.cond(a > b, lambda: inner(a, b)[0], lambda: b)

    with tf.device("/cpu:1"):
        x = tf.constant(2.0)
        y = outer(x)
    with tf.control_dependencies([y]):
        return outer(y + 1.0), tf.no_op()


@session_case
def calls_left_alone(tf: Any) -> object:
    x = tf.constant(2.0)
    return tf.function(lambda y: y + 1.0)(x)


@session_case
def calls_in_branches(tf: Any) -> object:
    return tf.cond(tf.constant(True), lambda: _calls(tf), lambda: (tf.constant(1.0), tf.no_op()))


@session_case
def calls_inlined(tf: Any) -> object:
    return _calls(tf)


@session_case
def legacy_calls_inlined(tf: Any) -> object:
    from tensorflow.python.framework import function

    @function.Defun(tf.float32, tf.float32, func_name="legacy")
    def legacy(x: Any, y: Any) -> object:
        with tf.device("/cpu:2"):
            z = x * y
        return z + tf.constant(1.0), tf.constant(2)

    with tf.device("/cpu:1"):
        a, b = legacy(tf.constant(1.0), tf.constant(2.0))
    with tf.control_dependencies([a]):
        c, d = legacy(a, a)
    with tf.control_dependencies([c.op]):
        return b, d, tf.no_op()


@session_case
def functions_that_must_stay_inlined(tf: Any) -> object:
    x = tf.constant(2.0)
    stays = tf.function(lambda y: y + 1.0, experimental_attributes={"_noinline": True})
    chosen = tf.function(
        lambda y: y + 3.0,
        experimental_attributes={"api_implements": "add_three", "api_preferred_device": "CPU"},
    )
    goes = tf.function(lambda y: y + 2.0)
    return stays(x), chosen(x), goes(x), tf.cond(x > 1.0, lambda: stays(x), lambda: goes(x))


@session_case
def functions_without_arguments_inlined(tf: Any) -> object:
    v = tf.compat.v1.get_variable("v", [], use_resource=True, initializer=tf.zeros_initializer())

    @tf.function
    def count() -> None:
        v.assign_add(1.0)

    count()
    with tf.control_dependencies([v.read_value()]):
        count()
        one = tf.function(lambda: tf.constant(1.0))()
    calls = [op for op in tf.compat.v1.get_default_graph().get_operations() if "Call" in op.type]
    with tf.control_dependencies(calls):
        return one, v.read_value()


@session_case
def shuffled_library_inlined(tf: Any) -> object:
    import random

    with tf.Graph().as_default() as graph:
        y, _ = _calls(tf)
        z = nested_loops(tf)[0]
    definition = graph.as_graph_def()
    for function in definition.library.function:
        nodes = list(function.node_def)
        random.Random(7).shuffle(nodes)
        del function.node_def[:]
        function.node_def.extend(nodes)
    return tf.import_graph_def(definition, return_elements=[y.name, z.name], name="")


@session_case
def loop_inside_a_legacy_function_inlined(tf: Any) -> object:
    """The frame names of inlined Enter nodes are made unique."""
    from tensorflow.python.framework import function

    tf.compat.v1.disable_control_flow_v2()

    @function.Defun(tf.float32, func_name="looping")
    def looping(x: Any) -> object:
        return tf.while_loop(lambda a: a < 10.0, lambda a: a * 2.0, [x])[0]

    (y,) = tf.while_loop(lambda a: a < 5.0, lambda a: a + 1.0, [tf.constant(1.0)])
    return looping(y), looping(tf.constant(3.0))
