"""The demo's job: a model by name, its variables on the servers, a replica on each worker."""

import importlib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tfwave.demo.networks import NETWORKS
from tfwave.demo.processes import VISIBLE
from tfwave.errors import EnvironmentUnsupported, TfwaveError
from tfwave.runtime.allocator import GROWTH
from tfwave.runtime.native import tensorflow_version

CLASSES = 100
LEARNING_RATE = 1e-3
_DEVICE = re.compile(r"(CPU|GPU):[0-9]{1,3}")
_APPLICATION = re.compile(r" import ([A-Z]\w*)$", re.MULTILINE)


@dataclass(frozen=True)
class Job:
    """A graph and what to run in it: for each worker its output and the time at which it was done."""

    graph: Any
    initializer: Any
    outputs: list[Any]
    finish_times: list[Any]
    """Seconds since the epoch, by the worker's clock."""


@dataclass(frozen=True)
class Replicas:
    """What each worker computes in a step: `batch` images of `image` x `image` pixels.

    In training each worker's loss is its output, it is done when its gradients are, and the servers apply their
    mean: replicas in one graph, trained in step. `device` is that of each worker; it never ran on a GPU.
    """

    model: str
    image: int
    batch: int
    classes: int = CLASSES
    train: bool = False
    device: str = "CPU:0"


def build_job(cluster: dict[str, list[str]], replicas: Replicas) -> Job:
    """A replica on each worker, in one step. Weights are the same each time: it seeds TensorFlow's, NumPy's and
    Python's random numbers.

    Raises:
        EnvironmentUnsupported: tf_keras is not installed.
        TfwaveError: no such model.
    """
    tensorflow: Any = importlib.import_module("tensorflow")
    v1: Any = tensorflow.compat.v1
    make = network_maker(replicas.model, replicas.classes)
    graph = tensorflow.Graph()
    with graph.as_default():
        _seed()
        with v1.device(_placement(v1, cluster, 0, replicas.device)):
            network = make(replicas.image)
        outputs: list[Any] = []
        done: list[list[Any]] = []
        times: list[Any] = []
        for worker in range(len(cluster["worker"])):
            with v1.device(_placement(v1, cluster, worker, replicas.device)):
                output, gradients = _replica(tensorflow, network, replicas, worker)
                with (
                    tensorflow.control_dependencies([output, *gradients]),
                    v1.device(f"/job:worker/task:{worker}/device:CPU:0"),
                ):
                    times.append(tensorflow.timestamp())
            outputs.append(output)
            done.append(gradients)
        if replicas.train:
            with tensorflow.control_dependencies(_applied(v1, network.trainable_variables, done)):
                outputs = [tensorflow.identity(output) for output in outputs]
        return Job(graph, v1.global_variables_initializer(), outputs, times)


def _seed() -> None:
    """For initial weights: tf_keras draws the seeds of its ops from a generator of its own."""
    keras: Any = importlib.import_module("tf_keras")
    keras.utils.set_random_seed(1)


def _replica(tensorflow: Any, network: Any, replicas: Replicas, worker: int) -> tuple[Any, list[Any]]:
    """What one worker computes: its output or loss, and in training the gradients."""
    shape = [replicas.batch, replicas.image, replicas.image, 3]
    images = tensorflow.random.stateless_uniform(shape, seed=[worker, 7])
    output = network(images, training=replicas.train)
    if not replicas.train:
        return output, []
    loss = tensorflow.reduce_mean(tensorflow.square(output))
    return loss, tensorflow.compat.v1.gradients(loss, network.trainable_variables)


def _applied(v1: Any, variables: list[Any], gradients: list[list[Any]]) -> list[Any]:
    """Gradient descent by the mean of the workers' gradients, where each variable is."""
    updates: list[Any] = []
    for variable, *of_workers in zip(variables, *gradients, strict=True):
        with v1.device(variable.device):
            step = LEARNING_RATE / len(of_workers)
            total = of_workers[0] if len(of_workers) == 1 else v1.add_n(of_workers)
            update = v1.raw_ops.ResourceApplyGradientDescent(var=variable.handle, alpha=step, delta=total)
            updates.append(update)
    return updates


def _placement(v1: Any, cluster: dict[str, list[str]], worker: int, device: str) -> Callable[[Any], str]:
    """Variables on the servers, and all that is on the worker on its device."""
    task = f"/job:worker/task:{worker}"
    setter: Any = v1.train.replica_device_setter(cluster=cluster, worker_device=task)

    def place(op: Any) -> str:
        chosen = str(setter(op))
        return f"{chosen}/device:{device}" if chosen == task else chosen

    return place


def network_maker(name: str, classes: int = CLASSES) -> Callable[[int], Any]:
    """What makes a network, with random weights, for images of a given side.

    Raises:
        EnvironmentUnsupported, TfwaveError: as `check_model`.
    """
    check_model(name)
    keras: Any = importlib.import_module("tf_keras")
    if name in NETWORKS:
        return lambda image: NETWORKS[name](keras, image, classes)
    make = getattr(keras.applications, name)
    return lambda image: make(weights=None, input_shape=(image, image, 3), classes=classes)


def check_model(name: str) -> None:
    """Refuse what is no model, without importing tf_keras, which takes seconds.

    Raises:
        EnvironmentUnsupported: tf_keras is not installed, or no supported TensorFlow is.
        TfwaveError: there is no such model; names those there are.
    """
    there = [*NETWORKS, *_applications()]
    if name not in there:
        raise TfwaveError(f"the demo has no model '{name}': choose one of {', '.join(there)}")


def check_device(name: str) -> None:
    """Refuse what is no device of a worker, such as CPU:1 or GPU:0.

    Raises:
        TfwaveError: it is none.
    """
    if not _DEVICE.fullmatch(name):
        raise TfwaveError(f"'{name}' is no device of a worker: write CPU:1, or GPU:0")


def server_config(device: str) -> Any:
    """What a worker's server needs to have a device: its number of CPU devices. GPUs are there, or are not."""
    config: Any = importlib.import_module("tensorflow").compat.v1.ConfigProto()
    kind, _, number = device.partition(":")
    config.device_count["CPU"] = int(number) + 1 if kind == "CPU" else 1
    return config


def worker_environment(device: str) -> dict[str, str]:
    """What the process of a worker needs to have a device: those of a demo see no GPU, and share those they see."""
    kind, _, number = device.partition(":")
    if kind == "CPU":
        return {}
    first = ",".join(str(gpu) for gpu in range(int(number) + 1))
    return {VISIBLE: os.environ.get(VISIBLE, first), GROWTH: "true"}


def _applications() -> list[str]:
    """The models of `tf_keras.applications`, by what its module imports."""
    found = find_spec("tf_keras")
    if found is None or found.origin is None:
        release = ".".join(tensorflow_version().split(".")[:2])
        raise EnvironmentUnsupported(
            f"the demo needs tf_keras: pip install --no-deps 'tf_keras=={release}.*' (without --no-deps it brings "
            "the full tensorflow, beside tensorflow-cpu)"
        )
    module = Path(found.origin).parent / "applications" / "__init__.py"
    return sorted(_APPLICATION.findall(module.read_text()))
