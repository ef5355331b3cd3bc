"""Passes inside Grappler. The plugin, once registered, stays in this process, switched off between the tests."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.numerics.runtime.gates import PREFIX, Failing, Gates, Interrupted
from tfwave.errors import EnforcerError, EnvironmentUnsupported, PassError
from tfwave.graph.item import GraphItem
from tfwave.graph.rewriter import GraphRewriter
from tfwave.passes.base import GraphPass
from tfwave.runtime.live.grappler import in_grappler
from tfwave.runtime.live.grappler_plugin import refuse_other_plugins

v1 = tf.compat.v1
X = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)
STEPS = 4
ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Watched(GraphPass):
    """Keeps what it is shown."""

    seen: list[GraphItem] = field(default_factory=list[GraphItem])

    def run(self, graph: GraphRewriter) -> None:
        self.seen.append(graph.item)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class TakenLater(GraphPass):
    """Refuses a graph when it is shown for the first time, and leaves it as it is when it is shown again."""

    shown: set[tuple[str, ...]] = field(default_factory=set[tuple[str, ...]])

    def run(self, graph: GraphRewriter) -> None:
        fetches = graph.item.fetches
        if fetches not in self.shown:
            self.shown.add(fetches)
            raise PassError("not yet")

    def __str__(self) -> str:
        return self.name


def run_session(target: str = "", devices: tuple[str, str] = ("CPU:0", "CPU:1")) -> tuple[list[bytes], Any]:
    """Train; returns the losses and the metadata of the last step."""
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, (4, 8), name="x")
        with tf.device(devices[1]):
            weights = [v1.get_variable(f"w{i}", initializer=tf.fill((8, 8), 0.1 * (i + 1))) for i in range(3)]
        with tf.device(devices[0]):
            h = x
            for w in weights:
                h = tf.tanh(h @ w)
            loss = tf.reduce_mean((h * x - 1.0) ** 2, name="loss")
            train_op = v1.train.GradientDescentOptimizer(0.5).minimize(loss)
        options, metadata = v1.RunOptions(output_partition_graphs=True), v1.RunMetadata()
        with v1.Session(target) as session:
            session.run(v1.global_variables_initializer())
            losses = [session.run([loss, train_op], {x: X}, options, metadata)[0] for _ in range(STEPS)]
    return [value.tobytes() for value in losses], metadata


def run_function() -> list[bytes]:
    weights = [tf.Variable(tf.fill((8, 8), 0.1 * (i + 1))) for i in range(3)]

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            h = x
            for w in weights:
                h = tf.tanh(h @ w)
            loss = tf.reduce_mean((h * x - 1.0) ** 2)
        for w, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            w.assign_sub(0.5 * gradient)
        return loss

    return [step(tf.constant(X)).numpy().tobytes() for _ in range(STEPS)]


def gates(metadata: Any) -> list[str]:
    nodes = [node for graph in metadata.partition_graphs for node in graph.node if node.op == "Identity"]
    return sorted(node.name for node in nodes if node.name.startswith(PREFIX))


def optimized() -> list[str]:
    """The nodes that a session step runs, after Grappler."""
    nodes = [node for graph in run_session(devices=("", ""))[1].partition_graphs for node in graph.node]
    for node in nodes:
        node.attr.pop("send_device_incarnation", None)
    return sorted(repr(node.SerializeToString(deterministic=True)) for node in nodes)


def test_a_session_runs_what_the_pass_made() -> None:
    expected, plain = run_session()
    with in_grappler(Gates()):
        losses, metadata = run_session()
    assert losses == expected
    assert gates(plain) == []
    assert len(gates(metadata)) == 8
    waiting = [
        n
        for g in metadata.partition_graphs
        for n in g.node
        if any(i.startswith(f"^{PREFIX}") for i in n.input)
    ]
    assert len(waiting) == 7


def test_a_function_runs_what_the_pass_made() -> None:
    expected = run_function()
    last, gates_pass = Watched(), Gates()
    with in_grappler(gates_pass):
        assert run_function() == expected
    with in_grappler(last):
        assert run_function() == expected
    (seen,) = {len(item.graph.node) for item in last.seen}
    assert seen > 8
    assert all(item.fetches for item in last.seen)


def test_what_a_pass_is_shown() -> None:
    watched = Watched()
    with in_grappler(watched):
        run_session()
    step = [item for item in watched.seen if "loss:0" in item.fetches]
    assert len(step) == 2
    for item in step:
        assert {"x", "loss"} <= item.preserve
        assert all(node.device for node in item.graph.node)


def test_switched_off_after_the_block() -> None:
    watched = Watched()
    with in_grappler(watched):
        run_session()
    shown = len(watched.seen)
    run_session()
    run_function()
    assert len(watched.seen) == shown > 0


def test_a_failing_pass_does_not_stop_the_job() -> None:
    expected, _ = run_session()
    reported = pytest.raises(EnforcerError, match=r"pass failing failed inside Grappler.*'no_such_node'")
    with reported, in_grappler(Failing()):
        losses, _ = run_session()
    assert losses == expected
    assert run_session()[0] == expected


def test_a_graph_that_is_refused_at_first_and_then_taken_as_it_is_is_no_failure() -> None:
    """As by a plan that changes nothing, of a graph that is the planned one by the second call."""
    plain = run_function()
    with in_grappler(TakenLater()) as outcomes:
        assert run_function() == plain
    assert "not yet" in {outcome.error for outcome in outcomes}
    assert not any(outcome.edits for outcome in outcomes)


def test_an_interrupt_is_raised_at_the_end() -> None:
    expected, _ = run_session()
    with pytest.raises(KeyboardInterrupt), in_grappler(Interrupted()):
        losses, _ = run_session()
    assert losses == expected


def test_the_job_s_own_exception_goes_first() -> None:
    def job() -> None:
        with in_grappler(Failing()):
            run_session()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        job()
    assert "no_such_node" in caught.value.__notes__[0]


def test_one_pass_at_a_time() -> None:
    expected, _ = run_session()
    with in_grappler(Gates()):
        with pytest.raises(EnforcerError, match="Pipeline"), in_grappler(Failing()):
            pytest.fail("entered")
        losses, metadata = run_session()
    assert losses == expected
    assert len(gates(metadata)) == 8


def test_threads() -> None:
    expected, _ = run_session()
    with in_grappler(Gates()), ThreadPoolExecutor(4) as pool:
        runs = [job.result(60) for job in [pool.submit(run_session) for _ in range(12)]]
    assert [losses for losses, _ in runs] == [expected] * 12
    assert [len(gates(metadata)) for _, metadata in runs] == [8] * 12


def test_grappler_s_own_work_stays_as_it_is() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.numerics.runtime.grappler_off"],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
        **_at_root(),
    )
    assert done.stdout == "same"


def test_a_server_process() -> None:
    expected, _ = run_session(devices=("", ""))
    with _server() as target:
        losses, metadata = run_session(target, devices=("", ""))
    assert losses == expected
    assert len(gates(metadata)) == 8


def test_other_plugins_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "tensorflow-plugins"
    folder.mkdir()
    refuse_other_plugins(tmp_path / "tensorflow")
    (folder / "libother.so").touch()
    with pytest.raises(EnvironmentUnsupported, match=r"libother\.so is installed.*offline"):
        refuse_other_plugins(tmp_path / "tensorflow")


@contextlib.contextmanager
def _server() -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.numerics.runtime.grappler_server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        **_at_root(),
    )
    try:
        assert process.stdout
        yield process.stdout.readline().removeprefix("TARGET ").strip()
        process.communicate(timeout=30)
        assert process.returncode == 0
    finally:
        process.kill()
        process.wait()


def _at_root() -> dict[str, Any]:
    return {"cwd": ROOT, "env": os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}}
