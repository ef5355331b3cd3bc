"""Training graphs of `tf_keras.applications` for Sessions: variables on the servers, a step for each worker."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

CLASSES = 1000
LEARNING_RATE = 1e-2
_UPDATES = frozenset({"AssignAddVariableOp", "AssignSubVariableOp"})


@dataclass(frozen=True)
class Training:
    """One training step: `number` is fed the step's number, from which its images are drawn."""

    graph: Any
    number: Any
    losses: list[Any]
    """Of each worker in the graph."""
    train: Any
    reset: Any
    """Gives every variable its first value, the same each time."""
    reads: list[str]
    """The tensors that read all variables, by name."""
    bytes: int
    """Of the trained variables."""
    server_bytes: int
    """Of those on the server that has most."""


def build_training(  # noqa: PLR0913, PLR0917
    cluster: Mapping[str, Sequence[str]],
    workers: Sequence[int],
    model: str,
    image: int,
    batch: int,
    first_matrix: bool = False,
) -> Training:
    """A step of these workers: one for asynchronous training, several for synchronous replicas.

    `first_matrix` puts a dense layer before the model, of as many units as an image has numbers.
    """
    import tensorflow as tf

    v1 = tf.compat.v1
    graph = tf.Graph()
    with graph.as_default():
        number = v1.placeholder(tf.int32, [], "number")
        network: Any = None
        losses: list[Any] = []
        gradients: list[list[Any]] = []
        statistics: list[Any] = []
        for worker in workers:
            with v1.device(
                v1.train.replica_device_setter(cluster=dict(cluster), worker_device=_device(worker))
            ):
                images = tf.random.stateless_uniform(
                    [batch, image, image, 3], seed=tf.stack([number, worker])
                )
                network = network or _network(model, image, first_matrix)
                made = len(graph.get_operations())
                loss = tf.reduce_mean(tf.square(network(images, training=True)))
                updates = [op for op in graph.get_operations()[made:] if op.type in _UPDATES]
                statistics = statistics or updates  # of one replica: those of several would race
                losses.append(loss)
                gradients.append(v1.gradients(loss, network.trainable_variables))
        train = _train(v1, network.trainable_variables, gradients, statistics)
        reads = [variable.read_value().name for variable in network.variables]
        sizes = Counter[str]()
        for variable in network.trainable_variables:
            sizes[variable.device] += variable.shape.num_elements() * variable.dtype.size
        reset = _reset(tf, network.variables)
        return Training(graph, number, losses, train, reset, reads, sizes.total(), max(sizes.values()))


def _network(model: str, image: int, first_matrix: bool) -> Any:
    from tfwave.demo.model import network_maker

    network = network_maker(model)(image)
    if not first_matrix:
        return network
    import tf_keras

    keras: Any = tf_keras
    shape = (image, image, 3)
    layers = keras.layers
    before = [layers.Flatten(), layers.Dense(3 * image**2, activation="relu"), layers.Reshape(shape)]
    return keras.Sequential([keras.Input(shape), *before, network])


def _device(worker: int) -> str:
    return f"/job:worker/task:{worker}"


def _train(v1: Any, variables: list[Any], gradients: list[list[Any]], statistics: list[Any]) -> Any:
    updates = list(statistics)
    for variable, *of_workers in zip(variables, *gradients, strict=True):
        with v1.device(variable.device):
            total = of_workers[0] if len(of_workers) == 1 else v1.add_n(of_workers)
            updates.append(
                v1.raw_ops.ResourceApplyGradientDescent(
                    var=variable.handle, alpha=LEARNING_RATE / len(of_workers), delta=total
                )
            )
    return v1.group(*updates, name="train")


def _reset(tf: Any, variables: list[Any]) -> Any:
    """He's initialisation, so that a step moves every weight; drawn on the server that holds the variable."""
    assigned: list[Any] = []
    for i, variable in enumerate(variables):
        with tf.compat.v1.device(variable.device):
            assigned.append(variable.assign(_first_value(tf, variable, i), read_value=False))
    return tf.group(*assigned, name="reset")


def _first_value(tf: Any, variable: Any, index: int) -> Any:
    shape = variable.shape.as_list()
    if len(shape) > 1:
        fan_in = variable.shape[:-1].num_elements()
        return tf.random.stateless_normal(shape, seed=[index, 3]) * (2 / fan_in) ** 0.5
    ones = "gamma" in variable.name or "variance" in variable.name
    return tf.ones(shape) if ones else tf.zeros(shape)
