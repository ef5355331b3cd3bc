"""Training steps of networks of tf_keras.applications, with variables on parameter servers."""

from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from tests.numerics.corpus.places import Places
from tests.numerics.corpus.session import SessionSample, session_sample

v1 = tf.compat.v1
BATCH = 2
CLASSES = 10
LEARNING_RATE = 0.01


def build(name: str, places: Places, *, network: str, image: int, share: int = 1) -> SessionSample:
    """A step of momentum on `BATCH` images of `image` x `image` pixels, moving averages included.

    One in `share` channels is left of each convolution: the same ops and edges, and less to compute.
    """
    tf_keras.utils.set_random_seed(1)
    graph = tf.Graph()
    with graph.as_default(), v1.device(places.setter()):
        images = v1.placeholder(tf.float32, [BATCH, image, image, 3], name="images")
        labels = v1.placeholder(tf.int32, [BATCH], name="labels")
        model = _model(network, image, share)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model(images, training=True))
        loss = tf.reduce_mean(losses, name="loss")
        optimizer = v1.train.MomentumOptimizer(LEARNING_RATE, 0.9)
        # Making the model traced it once already, on inputs of its own: those updates are not this step's.
        updates = [u for u in model.updates if u.name.startswith(f"{model.name}/")]
        with tf.control_dependencies(updates):
            train = optimizer.minimize(loss, var_list=model.trainable_variables, name="train")
        variables = [*model.weights, *optimizer.variables()]
    generator = np.random.default_rng(7)
    feeds = {
        images: generator.standard_normal([BATCH, image, image, 3], np.float32),
        labels: generator.integers(0, CLASSES, BATCH, np.int32),
    }
    return session_sample(
        name, places, graph, feeds=feeds, fetches=[loss], targets=[train], variables=variables
    )


def _model(network: str, image: int, share: int) -> Any:
    make = getattr(tf_keras.applications, network)
    with tf.Graph().as_default():
        whole = make(weights=None, input_shape=(image, image, 3), classes=CLASSES, classifier_activation=None)
    return tf_keras.models.clone_model(whole, clone_function=lambda layer: _narrow(layer, share))


def _narrow(layer: Any, share: int) -> Any:
    config = layer.get_config()
    if "filters" in config:
        config["filters"] //= share
    return layer.__class__.from_config(config)
