"""The offline cut against TensorFlow's own: edge for edge, node for node."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.numerics.corpus.function import function_sample
from tests.numerics.corpus.places import v1
from tests.numerics.graph.cut_graphs import (
    LOCAL,
    Case,
    control_flow,
    edges,
    placement,
    random_case,
    session_config,
)
from tests.ports import free_ports
from tfwave.errors import GraphError
from tfwave.graph.functions.lower import lower
from tfwave.graph.partition.cut import cut
from tfwave.graph.partition.pins import as_function
from tfwave.graph.transfer import find_transfers
from tfwave.graph.view import GraphView
from tfwave.proto.tensorflow_pb2 import GraphDef

pytestmark = pytest.mark.tensorflow

CPUS = tuple(f"/job:localhost/replica:0/task:0/device:CPU:{i}" for i in range(3))
TASKS = ("/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1")
TASK_CPUS = tuple(f"{task}/device:CPU:{i}" for task in TASKS for i in range(2))
ON_TASKS = (
    *("", "/cpu:0", "/cpu:1", "/job:ps/task:0", "/job:ps/task:0/cpu:0", "/job:worker/cpu:1"),
    *("/job:worker/task:0", "/job:worker/task:1/cpu:1", "/job:worker/replica:0/task:0/device:CPU:1"),
)
NOWHERE = ("/cpu:7", "/device:GPU:0")


@pytest.fixture(scope="module")
def servers() -> list[Any]:
    """Three tasks of two CPUs each in this process; they live as long as it does."""
    ports = iter(free_ports(len(TASKS)))
    jobs = {"ps": [f"127.0.0.1:{next(ports)}"], "worker": [f"127.0.0.1:{next(ports)}" for _ in range(2)]}
    places = [("ps", 0), ("worker", 0), ("worker", 1)]
    config = session_config(2)
    return [tf.distribute.Server(jobs, job_name=j, task_index=i, config=config) for j, i in places]


@pytest.mark.parametrize("seed", range(40))
def test_a_session_of_one_process_is_cut_as_by_tensorflow(seed: int) -> None:
    with control_flow(1):
        case = random_case(seed, LOCAL)
    theirs, _ = case.run()
    _check_same(theirs, cut(case.item, devices=CPUS))


@pytest.mark.parametrize("seed", range(40))
def test_a_lowered_session_is_cut_as_by_tensorflow(seed: int) -> None:
    with control_flow(2):
        case = random_case(seed, LOCAL)
    theirs, _ = case.run()
    ours = cut(case.item, devices=CPUS)
    assert edges(ours) == edges(theirs)
    names = {node.name for node in lower(case.item).graph.node}
    found, wanted = placement(ours), placement(theirs)
    assert {n: found[n] for n in names & found.keys()} == {n: wanted[n] for n in names & wanted.keys()}


@pytest.mark.parametrize("seed", range(10))
def test_soft_placement_is_tensorflows(seed: int) -> None:
    with control_flow(1):
        case = random_case(seed, (*LOCAL, *NOWHERE))
    theirs, _ = case.run(soft=True)
    _check_same(theirs, cut(case.item, devices=CPUS, soft=True))


@pytest.mark.parametrize("seed", range(30))
def test_a_session_of_a_cluster_is_cut_as_by_tensorflow(servers: list[Any], seed: int) -> None:
    with control_flow(1):
        case = random_case(seed, ON_TASKS)
    client = seed % len(TASKS)
    default = f"{TASKS[client]}/device:CPU:0"
    theirs, _ = case.run(servers[client].target, cpus=2)
    _check_same(theirs, cut(case.item, devices=TASK_CPUS, default=default))


@pytest.mark.parametrize("seed", range(15))
def test_the_partitions_run_and_give_the_same_bits(seed: int) -> None:
    with control_flow(1):
        case = random_case(seed, LOCAL)
    case.fetches = [fetch for fetch in case.fetches if isinstance(fetch, tf.Tensor)]
    _, wanted = case.run()
    got = _run_merged(cut(case.item, devices=CPUS), case)
    by_name = dict(zip([fetch.name for fetch in case.fetches], wanted, strict=True))
    for name, value in zip(sorted(by_name), got, strict=True):
        assert np.asarray(by_name[name]).tobytes() == np.asarray(value).tobytes()


def _identities() -> list[Any]:
    """Identities that follow what they read, and some that do not."""
    with tf.device("/cpu:1"):
        variable = v1.get_variable("v", [2], initializer=v1.zeros_initializer(), use_resource=True)
        assigned = variable.assign([1.0, 2.0], read_value=False)
    with tf.control_dependencies([assigned]):
        read = tf.raw_ops.ReadVariableOp(resource=variable.handle, dtype=tf.float32)
    follows, twice = tf.identity(read), tf.identity(read)
    with tf.device("/job:localhost"):
        asked = tf.identity(read)
    with tf.control_dependencies([asked]):
        waits = tf.identity(read)
    return [tf.tanh(follows), tf.add(twice, twice), asked, waits, tf.raw_ops.Shape(input=read)]


def _constants() -> list[Any]:
    """A small constant is copied, a big one and one that is waited for are not."""
    small, big, awaited = tf.constant([1.0] * 16), tf.constant([1.0] * 17), tf.constant([2.0])
    made: list[Any] = []
    for i in range(3):
        with tf.device(f"/cpu:{i}"), tf.control_dependencies([awaited] if i else []):
            made += [tf.tanh(small), tf.tanh(big), tf.tanh(awaited)]
    return made


def _references() -> list[Any]:
    """A reference that several nodes of another device read as a value is not shared."""
    with tf.device("/cpu:1"):
        variable = v1.get_variable("v", [2], initializer=v1.zeros_initializer(), use_resource=False)
        assigned = v1.assign(variable, [1.0, 2.0])
    with tf.device("/cpu:2"):
        return [tf.tanh(assigned), tf.sin(assigned), tf.add(assigned, assigned)]


def _handles() -> list[Any]:
    """Who takes a handle goes where it was made, whatever it asks for."""
    with tf.device("/cpu:1"):
        queue = tf.queue.FIFOQueue(2, [tf.float32], [[2]])
    with tf.device("/cpu:2"):
        put = queue.enqueue([[1.0, 2.0]])
    with tf.device("/cpu:0"), tf.control_dependencies([put]):
        return [queue.dequeue()]


def _colocation() -> list[Any]:
    """Partial devices of a group add up."""
    with tf.device("/task:0"):
        first = tf.tanh(tf.ones([20]))
    with v1.colocate_with(first.op, ignore_existing=True):
        second = tf.sin(tf.ones([20]))
    second.op._set_device("/device:CPU:2")
    return [tf.cos(first), second]


def _strings() -> list[Any]:
    """Constants with one reader go to it; several outputs of a node cross one by one."""
    with tf.device("/cpu:1"):
        parts = tf.split(tf.tanh(tf.ones([4])), 2)
    with tf.device("/cpu:2"):
        return [parts[0] + 1.0, parts[1] + parts[0], tf.strings.as_string(parts[1])]


@pytest.mark.parametrize(
    "build", [_identities, _constants, _references, _handles, _colocation, _strings], ids=lambda f: f.__name__
)
def test_a_tricky_graph_is_cut_as_by_tensorflow(build: Callable[[], list[Any]]) -> None:
    with tf.Graph().as_default() as graph:
        case = Case(graph, {}, build())
    theirs, _ = case.run()
    _check_same(theirs, cut(case.item, devices=CPUS))


def test_a_loop_over_variables_of_two_devices_is_cut_as_by_tensorflow() -> None:
    with tf.Graph().as_default() as graph, control_flow(2):
        found: list[Any] = []
        for i in (1, 2):
            with tf.device(f"/cpu:{i}"):
                found.append(v1.get_variable(f"v{i}", initializer=tf.ones([20]), use_resource=True))
        with tf.control_dependencies([v.initializer for v in found]):
            start = [tf.constant(0), tf.ones([20])]
            _, end = tf.while_loop(lambda i, _: i < 3, lambda i, x: (i + 1, x * found[0] + found[1]), start)
        case = Case(graph, {}, [end])
    theirs, _ = case.run()
    assert edges(cut(case.item, devices=CPUS)) == edges(theirs)


def test_a_fed_tensor_comes_from_the_client() -> None:
    with tf.Graph().as_default() as graph:
        with tf.device("/cpu:1"):
            made = tf.tanh(tf.ones([20]))
        with tf.device("/cpu:2"):
            read = tf.sin(made)
            with tf.control_dependencies([made]):
                late = tf.cos(read)
    case = Case(graph, {made: [0.5] * 20}, [late, read])
    theirs, _ = case.run()
    _check_same(theirs, cut(case.item, devices=CPUS))


@pytest.mark.parametrize("device", NOWHERE)
def test_both_refuse_a_device_that_is_not_there(device: str) -> None:
    with tf.Graph().as_default() as graph, tf.device(device):
        case = Case(graph, {}, [tf.tanh(tf.ones([20]), name="lost")])
    with pytest.raises(tf.errors.InvalidArgumentError):
        case.run()
    with pytest.raises(GraphError, match=re.escape(device) if "GPU" in device else "CPU:7"):
        cut(case.item, devices=CPUS)


def test_both_refuse_a_colocation_that_cannot_be() -> None:
    with tf.Graph().as_default() as graph:
        with tf.device("/cpu:1"):
            first = tf.tanh(tf.ones([20]), name="first")
        with v1.colocate_with(first.op, ignore_existing=True):
            second = tf.sin(first, name="second")
        second.op._set_device("/device:CPU:2")
    case = Case(graph, {}, [second])
    with pytest.raises(tf.errors.InvalidArgumentError):
        case.run()
    with pytest.raises(GraphError, match=r"'first' and 'second'.*CPU:1.*CPU:2"):
        cut(case.item, devices=CPUS)


@pytest.mark.parametrize("name", ["_step", "_looping", "_branching", "_calling", "_scaling"])
def test_a_function_is_cut_as_by_tensorflow(name: str) -> None:
    with tf.device("CPU:1"):
        weight = tf.Variable(tf.ones((4, 4)) * 0.1)
    with tf.device("CPU:2"):
        bias = tf.Variable(tf.ones((4,)))
    function = tf.function(_FUNCTIONS[name](weight, bias))
    sample = function_sample(name, function, {"x": np.ones((4, 4), np.float32)}, (weight, bias))
    theirs = [GraphDef.FromString(data) for data in sample.partition_graphs(sample.graph)]
    ours = cut(as_function(sample.item(), sample.handles), devices=sample.devices)
    assert edges(theirs)
    assert edges(ours) == edges(theirs)


def _step(weight: Any, bias: Any) -> Callable[[Any], Any]:
    def step(x: Any) -> Any:
        with tf.device("CPU:0"), tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.tanh(x @ weight) + bias) ** 2)
        for variable, gradient in zip((weight, bias), tape.gradient(loss, (weight, bias)), strict=True):
            variable.assign_sub(0.1 * gradient)
        return loss

    return step


def _looping(weight: Any, bias: Any) -> Callable[[Any], Any]:
    def loop(x: Any) -> Any:
        with tf.device("CPU:1"):
            value = x * 2.0
        for _ in tf.range(3):
            with tf.device("CPU:2"):
                value = value + bias
            for _ in tf.range(2):
                with tf.device("CPU:0"):
                    value = tf.tanh(value @ weight)
        return value, bias + 1.0

    return loop


def _branching(weight: Any, bias: Any) -> Callable[[Any], Any]:
    def branch(x: Any) -> Any:
        with tf.device("CPU:1"):
            value = x * 2.0
        if tf.reduce_sum(value) > 0:
            with tf.device("CPU:2"):
                made = value + bias
        else:
            with tf.device("CPU:1"):
                made = value - weight
        return made, value

    return branch


def _calling(weight: Any, bias: Any) -> Callable[[Any], Any]:
    @tf.function
    def inner(x: Any) -> Any:
        with tf.device("CPU:2"):
            return tf.sin(x) + bias

    def call(x: Any) -> Any:
        with tf.device("CPU:1"):
            value = inner(x)
        return inner(value) + x @ weight, tf.shape(value), x

    return call


def _scaling(weight: Any, bias: Any) -> Callable[[Any], Any]:
    """The small tensor that it captures is a constant in its graph, and an argument all the same."""
    factor = tf.constant([0.5, 2.0, 3.0, 4.0])

    def scale(x: Any) -> Any:
        value = (x @ weight) * factor
        with tf.device("CPU:2"):
            return value + bias

    return scale


_FUNCTIONS: Mapping[str, Callable[[Any, Any], Callable[[Any], Any]]] = {
    f.__name__: f for f in (_step, _looping, _branching, _calling, _scaling)
}


def _check_same(theirs: Sequence[GraphDef], ours: Sequence[GraphDef]) -> None:
    assert edges(ours) == edges(theirs)
    assert _named(placement(ours)) == _named(placement(theirs))
    found, wanted = (find_transfers(GraphView.of(*graphs)) for graphs in (ours, theirs))
    assert [t.key for t in found.data] == [t.key for t in wanted.data]
    assert len(found.control) == len(wanted.control)


def _named(devices: Mapping[str, str]) -> dict[str, str]:
    """Without the `_Send`s and `_Recv`s inside a task: a server numbers them over all its Sessions."""
    return {name: device for name, device in devices.items() if not re.search(r"_G\d+$", name)}


def _run_merged(partitions: Iterable[GraphDef], case: Case) -> list[Any]:
    """Run all partitions as one graph, whose edges between devices are its `_Send`s and `_Recv`s."""
    merged = GraphDef()
    sends: list[str] = []
    returns: dict[int, str] = {}
    feeds: dict[str, Any] = {}
    values = [value for _, value in sorted((tensor.name, value) for tensor, value in case.feeds.items())]
    for node in (node for partition in partitions for node in partition.node):
        made = merged.node.add()
        made.CopyFrom(node)
        made.name = _visible(node.name)
        del made.input[:]
        made.input.extend(map(_visible, node.input))
        made.attr.pop("_class", None)
        if node.op == "_Send":
            sends.append(made.name)
        elif node.op == "_Retval":
            made.op = "Identity"
            returns[node.attr["index"].i] = made.name
        elif node.op == "_Arg":
            made.op = "Placeholder"
            made.attr["dtype"].type = node.attr["T"].type
            feeds[f"{made.name}:0"] = values[node.attr["index"].i]
    definition = v1.GraphDef.FromString(merged.SerializeToString())
    with tf.Graph().as_default() as graph, v1.Session(graph=graph, config=session_config(3)) as session:
        tf.graph_util.import_graph_def(definition, name="")
        return session.run([[f"{returns[i]}:0" for i in sorted(returns)], sends], feeds)[0]


def _visible(text: str) -> str:
    """TensorFlow imports no name that begins with an underscore."""
    return re.sub(r"^(\^?)_", r"\1visible_", text)
