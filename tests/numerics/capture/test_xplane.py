"""Tracing the server of this very process, and what the kernels' times are worth."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from tensorflow.python.eager import context

from tfwave.capture.function import function_name
from tfwave.cost.model import FREE_OPS
from tfwave.errors import EnforcerError
from tfwave.runtime.trace.profiler import Profiler
from tfwave.runtime.trace.xplane import Trace, op_samples, read_trace

pytestmark = pytest.mark.tensorflow

RUNS = 3
TRACES = 3
"""On a busy machine TensorFlow loses an event now and then: hardly in each of them."""


@pytest.fixture(scope="module")
def target() -> str:
    return tf.distribute.Server.create_local_server().target


@pytest.fixture
def profiler(target: str) -> Iterator[Profiler]:
    with Profiler(target) as started:
        yield started


def traced(profiler: Profiler, run: Callable[[], Any]) -> Trace:
    profiler.start()
    for _ in range(RUNS):
        run()
    return read_trace(profiler.stop())


def samples(trace: Trace, function: Any, *args: Any) -> dict[str, tuple[float, ...]]:
    return op_samples(trace, function_name(function.get_concrete_function(*args)))


def test_a_kernel_takes_nearly_all_of_its_step(profiler: Profiler) -> None:
    @tf.function
    def step(x: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.matmul(x, x, name="big"))

    x = tf.random.stateless_normal([1024, 1024], [1, 2])
    step(x)
    wall: list[float] = []

    def timed() -> None:
        begin = time.perf_counter()
        step(x).numpy()
        wall.append(time.perf_counter() - begin)

    kernels = samples(traced(profiler, timed), step, x)["big"]
    assert len(kernels) == RUNS
    shares = [kernel / whole for kernel, whole in zip(kernels, wall, strict=True)]
    assert max(shares) < 1
    assert max(shares) > 0.5  # of the run that other processes disturbed least


def test_each_node_of_the_partition_graph_is_seen(profiler: Profiler) -> None:
    """Cheap ops too: a time oracle made of a trace misses no cost but those of a branch not taken."""

    @tf.function
    def step(x: tf.Tensor, flag: tf.Tensor) -> tf.Tensor:
        y = tf.cond(flag, lambda: tf.tanh(x), lambda: tf.nn.relu(x))
        z = tf.reshape(tf.transpose(x), [-1]) + tf.cast(tf.size(y), tf.float32)
        return tf.reduce_sum(y) * tf.reduce_mean(z)

    args = tf.random.stateless_normal([8, 8], [1, 2]), tf.constant(True)
    context.context().enable_run_metadata()
    try:
        step(*args)
        graphs = context.context().export_run_metadata().partition_graphs
    finally:
        context.context().disable_run_metadata()
    (graph,) = [g for g in graphs if any(node.name == "transpose" for node in g.node)]
    costly = {node.name for node in graph.node if node.op not in FREE_OPS}
    untaken = {node.name for node in graph.node if node.op == "Relu" or "/pivot_f/" in node.name}
    assert len(untaken) == 2
    counts: list[dict[str, int]] = []
    for _ in range(TRACES):
        found = samples(traced(profiler, lambda: step(*args)), step, *args)
        assert costly - found.keys() == untaken
        counts.append({name: len(found[name]) for name in costly - untaken})
    assert dict.fromkeys(costly - untaken, RUNS) in counts


def test_called_functions_and_loops(profiler: Profiler) -> None:
    @tf.function
    def called(x: tf.Tensor) -> tf.Tensor:
        return tf.tanh(tf.matmul(x, x, name="product"))

    @tf.function
    def step(x: tf.Tensor) -> tf.Tensor:
        y = called(called(x))
        for _ in tf.range(5):
            y = tf.sin(y, name="wave") + 1.0
        return y

    x = tf.ones([32, 32])
    step(x)
    found = samples(traced(profiler, lambda: step(x)), step, x)
    assert len(found["PartitionedCall/product"]) == RUNS
    assert len(found["PartitionedCall_1/product"]) == RUNS
    (wave,) = [name for name in found if name.endswith("/wave")]
    assert len(found[wave]) == RUNS * 5


def test_a_function_that_is_not_inlined_is_one_kernel(profiler: Profiler) -> None:
    """Its own kernels run as a step of their own, and are not among those of the caller."""

    @tf.function(experimental_attributes={"_noinline": True})
    def called(x: tf.Tensor) -> tf.Tensor:
        return tf.matmul(x, x, name="product")

    @tf.function
    def step(x: tf.Tensor) -> tf.Tensor:
        return called(x) + 1.0

    x = tf.ones([512, 512])
    step(x)
    trace = traced(profiler, lambda: step(x))
    found = samples(trace, step, x)
    inner = [run.seconds for run in trace.ops if run.node == "product"]
    assert "product" not in found
    assert len(inner) == len(found["PartitionedCall"]) == RUNS
    assert all(call > kernel for call, kernel in zip(found["PartitionedCall"], inner, strict=True))


def test_kernels_that_wait(profiler: Profiler) -> None:
    def wait(x: Any) -> Any:
        time.sleep(0.03)
        return x

    @tf.function
    def step(x: tf.Tensor) -> tf.Tensor:
        y = tf.py_function(wait, [x], tf.float32, name="eager")
        return tf.numpy_function(wait, [y], tf.float32, name="plain")

    x = tf.constant(1.0)
    step(x)
    found = samples(traced(profiler, lambda: step(x)), step, x)
    waits = [seconds for name in ("eager", "plain") for seconds in found[name]]
    assert len(waits) == 2 * RUNS
    assert all(0.03 <= seconds < 1 for seconds in waits)


def test_two_functions_at_once(profiler: Profiler) -> None:
    """Their nodes have equal names, and other times."""

    def made() -> Any:
        return tf.function(lambda x: tf.reduce_sum(tf.matmul(x, x, name="product")))

    small, large = made(), made()
    x, y = tf.ones([64, 64]), tf.ones([768, 768])
    small(x)
    large(y)

    def both() -> None:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda call: call(), [lambda: small(x), lambda: large(y)] * 2))

    trace = traced(profiler, both)
    fast, slow = samples(trace, small, x)["product"], samples(trace, large, y)["product"]
    assert len(fast) == len(slow) == 2 * RUNS
    assert min(slow) > 10 * min(fast)


def test_one_trace_at_a_time(profiler: Profiler, target: str) -> None:
    with Profiler(target) as second:
        profiler.start()
        with pytest.raises(EnforcerError, match="is under way: stop it first"):
            profiler.start()
        with pytest.raises(EnforcerError, match="Another profiling session"):
            second.start()
        with pytest.raises(EnforcerError, match=r"no trace .* start one"):
            second.stop()
        profiler.cancel()
        second.start()
        second.cancel()


def test_a_forgotten_trace_ends_by_itself(profiler: Profiler, target: str) -> None:
    step = tf.function(lambda x: x + 1)
    step(tf.constant(1.0))
    profiler.start(seconds=0.3)
    step(tf.constant(1.0))
    time.sleep(0.5)
    step(tf.constant(1.0))  # too late
    with Profiler(target) as second:
        second.start()
        second.cancel()
    assert len(read_trace(profiler.stop()).functions) == 1


def test_a_trace_ends_with_the_process_that_asked(profiler: Profiler, target: str) -> None:
    asks = (
        "import os\nfrom tfwave.runtime.trace.profiler import Profiler\n"
        f"Profiler({target!r}).start()\nos._exit(0)"
    )
    subprocess.run([sys.executable, "-c", asks], check=True, timeout=30)
    end = time.monotonic() + 10
    while True:
        try:
            profiler.start()
        except EnforcerError:
            assert time.monotonic() < end, "the trace of a process that is gone goes on"
        else:
            break


def test_no_file_is_left(profiler: Profiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    profiler.start()
    assert profiler.stop()
    profiler.start()
    profiler.cancel()
    assert not list(tmp_path.iterdir())
