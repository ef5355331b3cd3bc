"""Passes on v1 graphs and sessions: the same numbers inside, the very same graph after."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.numerics.runtime.gates import PREFIX, DropTanh, Failing, Gates, MoveTanh, SwapInputs
from tfwave.errors import EnforcerError, GraphError
from tfwave.passes.pipeline import Pipeline
from tfwave.runtime.live.install import install

v1 = tf.compat.v1
X = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)
STEPS = 4


class Job:
    """A training step; its weights, one of them a reference variable, are on another device than its compute."""

    def __init__(self) -> None:
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.x = v1.placeholder(tf.float32, (None, 8))
            with tf.device("CPU:1"):
                weights = [
                    v1.get_variable(f"w{i}", initializer=tf.fill((8, 8), 0.1 * (i + 1)), use_resource=i > 0)
                    for i in range(3)
                ]
            with tf.device("CPU:0"):
                h = self.x
                for w in weights:
                    h = tf.tanh(h @ w)
                self.loss = tf.reduce_mean((h * self.x - 1.0) ** 2)
                self.train_op = v1.train.GradientDescentOptimizer(0.5).minimize(self.loss)
            self.init = v1.global_variables_initializer()

    def train(self, session: Any) -> list[bytes]:
        session.run(self.init)
        return [session.run([self.loss, self.train_op], {self.x: X})[0].tobytes() for _ in range(STEPS)]

    def edges(self) -> dict[str, Any]:
        nodes = self.graph.as_graph_def().node
        return {
            n.name: n.SerializeToString(deterministic=True) for n in nodes if not n.name.startswith("test_")
        }


@pytest.fixture(scope="module")
def expected() -> list[bytes]:
    job = Job()
    with v1.Session(graph=job.graph) as session:
        return job.train(session)


V1_PASSES = [
    Gates(note="n", device="/device:CPU:2"),
    Pipeline((Gates(), SwapInputs())),
    MoveTanh("/device:CPU:1"),
]


@pytest.mark.parametrize("graph_pass", V1_PASSES, ids=str)
def test_a_graph_is_rewritten_for_the_sessions_inside(graph_pass: Any, expected: list[bytes]) -> None:
    job = Job()
    before = job.edges()
    for _ in range(2):
        with install(job.graph, graph_pass):
            assert job.edges() != before
            with v1.Session(graph=job.graph) as session:
                assert job.train(session) == expected
        assert job.edges() == before
        with v1.Session(graph=job.graph) as session:
            assert job.train(session) == expected


def test_the_scopes_around_do_not_matter() -> None:
    job = Job()
    waiting = job.graph.control_dependencies([job.init])
    with job.graph.as_default(), tf.device("CPU:1"), waiting, install(job.graph, SwapInputs()):
        start = job.graph.get_operation_by_name("test_start/mul")
    assert start.device == ""
    assert [op.name for op in start.control_inputs] == ["test_start/mul/first"]
    assert start.control_inputs[0].control_inputs == []


def test_a_session_that_has_not_run_takes_the_edits(expected: list[bytes]) -> None:
    job = Job()
    with v1.Session(graph=job.graph) as session:
        with install(session, Gates(device="/device:CPU:2")):
            session.run(job.init)
            metadata = v1.RunMetadata()
            options = v1.RunOptions(output_partition_graphs=True)
            session.run([job.loss, job.train_op], {job.x: X}, options, metadata)
        nodes = [node.name for graph in metadata.partition_graphs for node in graph.node]
        assert [name for name in nodes if name.startswith(PREFIX)]
        assert job.train(session) == expected


@pytest.mark.parametrize("by", ["session", "graph"])
def test_a_session_that_has_run_is_refused(by: str, expected: list[bytes]) -> None:
    job = Job()
    before = job.edges()
    with v1.Session(graph=job.graph) as session:
        session.run(job.init)
        target = session if by == "session" else job.graph
        with (
            pytest.raises(EnforcerError, match=r"node '.+' .*before the first run"),
            install(target, Gates()),
        ):
            pytest.fail("installed")
        assert job.edges() == before
        assert job.train(session) == expected
    with install(job.graph, Gates()), v1.Session(graph=job.graph) as fresh:
        assert job.train(fresh) == expected


def test_a_graph_after_an_exception(expected: list[bytes]) -> None:
    job = Job()
    before = job.edges()
    with pytest.raises(ZeroDivisionError), install(job.graph, Gates()):
        raise ZeroDivisionError
    with pytest.raises(GraphError, match="no_such_node"), install(job.graph, Failing()):
        pytest.fail("installed")
    with (
        pytest.raises(EnforcerError, match=r"drop_tanh .* cannot be removed"),
        install(job.graph, DropTanh()),
    ):
        pytest.fail("installed")
    assert job.edges() == before
    with v1.Session(graph=job.graph) as session:
        assert job.train(session) == expected


def test_what_cannot_be_a_target() -> None:
    job = Job()
    job.graph.finalize()
    for target, message in (
        (job.graph, "finalized"),
        (len, "cannot install on"),
        (Job, "cannot install on"),
    ):
        with pytest.raises(EnforcerError, match=message), install(target, Gates()):
            pytest.fail("installed")
