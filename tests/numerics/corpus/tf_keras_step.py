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
REPEATED = {
    "ResNet50": {
        "conv2_block2_out": "conv2_block3_out",
        "conv3_block2_out": "conv3_block4_out",
        "conv4_block2_out": "conv4_block6_out",
        "conv5_block2_out": "conv5_block3_out",
    },
    "InceptionV3": {"mixed1": "mixed2", "mixed4": "mixed7", "mixed9": "mixed10"},
}
"""By the last block of its kind that a narrow network keeps: the last of those that repeat it."""


def build(name: str, places: Places, *, network: str, image: int, share: int = 1) -> SessionSample:
    """A step of momentum on `BATCH` images of `image` x `image` pixels, moving averages included.

    One in `share` channels is left of each convolution; of blocks that repeat the one before them, none where
    `share` is over 1: the same ops and kinds of edges, and less to compute.
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
    config = whole.get_config()
    if share > 1:
        for last, repeated in REPEATED[network].items():
            _leave_out(config, last, repeated)
    for layer in config["layers"]:
        if "filters" in layer["config"]:
            layer["config"]["filters"] //= share
    return tf_keras.Model.from_config(config)


def _leave_out(config: dict[str, Any], last: str, repeated: str) -> None:
    """Let those that read `repeated` read `last`, of the same shape, and drop the layers that nothing reads."""
    layers = {layer["name"]: layer for layer in config["layers"]}
    for layer in layers.values():
        for read in _reads(layer):
            read[0] = last if read[0] == repeated else read[0]
    needed, ahead = set(), [name for name, *_ in config["output_layers"]]
    while ahead:
        needed.add(name := ahead.pop())
        ahead += [read[0] for read in _reads(layers[name]) if read[0] not in needed]
    config["layers"] = [layer for layer in config["layers"] if layer["name"] in needed]


def _reads(layer: dict[str, Any]) -> list[list[Any]]:
    """What each call of a layer takes: name, node, tensor and arguments."""
    return [read for call in layer["inbound_nodes"] for read in call]
