"""Barriers keep the bits of what TensorFlow's optimizer computes otherwise where no control edge is."""

import numpy as np
import pytest
import tensorflow as tf

from grappler_passes.counter_barrier import CounterBarrier
from tests.numerics.corpus.sample import Array, make_item
from tests.rewrites import check_rewrite, graph_bytes

v1 = tf.compat.v1
pytestmark = pytest.mark.tensorflow
FETCHES = ("given:0", "swish:0", "mish:0", "cube:0")


def functions_of_one_tensor() -> bytes:
    with tf.Graph().as_default() as graph:
        x = tf.abs(v1.placeholder(tf.float32, [17, 9], name="x"), name="given")
        tf.multiply(x, tf.sigmoid(x, name="sigmoid"), name="swish")
        tf.reduce_max(graph.get_tensor_by_name("sigmoid:0"), name="not_run")
        tf.multiply(x, tf.tanh(tf.nn.softplus(x, name="softplus"), name="tanh"), name="mish")
        tf.pow(x, 3.0, name="cube")
    return graph.as_graph_def().SerializeToString()


def ran(graph: bytes) -> list[Array]:
    with tf.Graph().as_default() as imported:
        tf.graph_util.import_graph_def(v1.GraphDef.FromString(graph), name="")
    with v1.Session(graph=imported) as session:
        return session.run(FETCHES, {"x:0": np.random.default_rng(3).standard_normal((17, 9))})


@pytest.mark.parametrize("group", [("sigmoid",), ("softplus", "swish"), ("tanh",), ("mish",), ("cube",)])
def test_barriers_keep_the_bits(group: tuple[str, ...]) -> None:
    graph = functions_of_one_tensor()
    made = check_rewrite(CounterBarrier((("given",), group)), make_item(graph, ["x:0"], FETCHES, []))
    for got, wanted in zip(ran(graph_bytes(made.item)), ran(graph), strict=True):
        assert got.tobytes() == wanted.tobytes()
