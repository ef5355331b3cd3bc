"""The demo's networks, and its training step on servers of this process."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tests.full import each
from tests.numerics.corpus import places
from tfwave.demo.model import LEARNING_RATE, Replicas, build_job
from tfwave.demo.networks import NETWORKS

pytestmark = pytest.mark.tensorflow

TABLE_1 = {"AlexNetV2": (16, 191.89), "InceptionV1": (116, 25.24), "InceptionV2": (141, 42.64)}
"""Parameters and MiB that TicTac's paper prints."""


@pytest.mark.parametrize("name", each(TABLE_1, ("InceptionV1", "InceptionV2")))
def test_networks_have_the_parameters_that_table_1_counts(name: str) -> None:
    with tf.Graph().as_default():
        variables: list[Any] = NETWORKS[name](tf_keras, 224, 1000).trainable_variables
    sizes = [v.shape.num_elements() * v.dtype.size for v in variables]
    assert (len(sizes), round(sum(sizes) / 2**20, 2)) == TABLE_1[name]


def test_a_training_step_moves_the_weights_on_the_servers() -> None:
    where = places.cluster()
    cluster = {"ps": list(where.servers), "worker": [where.worker]}
    job = build_job(cluster, Replicas("InceptionV1", image=32, batch=2, classes=5, train=True))
    holders = {node.device for node in job.graph.as_graph_def().node if node.op == "VarHandleOp"}
    assert holders == {f"/job:ps/task:{task}" for task in range(len(where.servers))}
    with job.graph.as_default():
        weights = tf.compat.v1.trainable_variables()[-2]
        gradient = tf.compat.v1.gradients(job.outputs[0], weights)[0]
    with tf.compat.v1.Session(where.target, graph=job.graph) as session:
        session.run(job.initializer)
        before, slope = session.run((weights, gradient))
        session.run(job.outputs)
        after = session.run(weights)
    np.testing.assert_allclose(after, before - LEARNING_RATE * slope, rtol=1e-6, atol=1e-9)
    assert (after != before).any()


def test_each_chief_starts_from_the_same_weights() -> None:
    first, second = (initial_weights() for _ in range(2))
    assert all((a == b).all() for a, b in zip(first, second, strict=True))
    assert max(weights.std() for weights in first) > 0


def initial_weights() -> list[np.ndarray]:
    where = places.cluster()
    job = build_job(
        {"ps": list(where.servers), "worker": [where.worker]}, Replicas("VGG16Like", 32, 2, classes=5)
    )
    with job.graph.as_default():
        variables = tf.compat.v1.trainable_variables()
    with tf.compat.v1.Session(where.target, graph=job.graph) as session:
        session.run(job.initializer)
        return session.run(variables)
