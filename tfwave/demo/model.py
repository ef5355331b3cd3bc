"""The demo's job: a model of `tf_keras.applications`, variables on the servers, a replica on each worker."""

import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tfwave.errors import EnvironmentUnsupported, TfwaveError

CLASSES = 100
VGG16_LIKE = "VGG16Like"
"""VGG-16's convolutions, strided instead of pooled, with a head of 512, 512 and 1000: 79 MB at 128 pixels."""

_VGG16_CONVOLUTIONS = (
    *((64, 1), (64, 2), (128, 1), (128, 2), (256, 1), (256, 1), (256, 2)),
    *((512, 1), (512, 1), (512, 2), (512, 1), (512, 1), (512, 2)),
)
"""Filters and stride."""

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


def build_job(cluster: dict[str, list[str]], model: str, image: int, batch: int, device: str) -> Job:
    """Inference of `batch` images of `image` x `image` pixels on a device of each worker, in one step.

    Raises:
        EnvironmentUnsupported: tf_keras is not installed.
        TfwaveError: no such model.
    """
    tensorflow: Any = importlib.import_module("tensorflow")
    v1: Any = tensorflow.compat.v1
    make = network_maker(model)
    graph = tensorflow.Graph()
    with graph.as_default():
        v1.set_random_seed(1)
        network: Any = None
        outputs: list[Any] = []
        times: list[Any] = []
        for worker in range(len(cluster["worker"])):
            task = f"/job:worker/task:{worker}"
            with v1.device(_placement(v1, cluster, task, device)):
                images = tensorflow.random.stateless_uniform([batch, image, image, 3], seed=[worker, 7])
                if network is None:
                    network = make(image)
                output = network(images, training=False)
                with tensorflow.control_dependencies([output]), v1.device(f"{task}/device:CPU:0"):
                    times.append(tensorflow.timestamp())
                outputs.append(output)
        return Job(graph, v1.global_variables_initializer(), outputs, times)


def _placement(v1: Any, cluster: dict[str, list[str]], task: str, device: str) -> Callable[[Any], str]:
    """Variables on the servers, and all that is on the worker on its device."""
    setter: Any = v1.train.replica_device_setter(cluster=cluster, worker_device=task)

    def place(op: Any) -> str:
        chosen = str(setter(op))
        return f"{chosen}/device:{device}" if chosen == task else chosen

    return place


def network_maker(name: str) -> Callable[[int], Any]:
    """What makes a network, with random weights, for images of a given side.

    Raises:
        EnvironmentUnsupported, TfwaveError: as `check_model`.
    """
    check_model(name)
    keras: Any = importlib.import_module("tf_keras")
    if name == VGG16_LIKE:
        return partial(_vgg16_like, keras)
    make = getattr(keras.applications, name)
    return lambda image: make(weights=None, input_shape=(image, image, 3), classes=CLASSES)


def _vgg16_like(keras: Any, image: int) -> Any:
    layers = keras.layers
    convolutions = [
        layers.Conv2D(filters, 3, strides=stride, padding="same", activation="relu")
        for filters, stride in _VGG16_CONVOLUTIONS
    ]
    head = [layers.Flatten(), *(layers.Dense(units, activation="relu") for units in (512, 512, 1000))]
    return keras.Sequential([keras.Input((image, image, 3)), *convolutions, *head])


def check_model(name: str) -> None:
    """Refuse what is no model, without importing tf_keras, which takes seconds.

    Raises:
        EnvironmentUnsupported: tf_keras is not installed.
        TfwaveError: there is no such model; names those there are.
    """
    there = [VGG16_LIKE, *_applications()]
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


def _applications() -> list[str]:
    """The models of `tf_keras.applications`, by what its module imports."""
    found = find_spec("tf_keras")
    if found is None or found.origin is None:
        raise EnvironmentUnsupported("the demo needs tf_keras: pip install tf_keras")
    module = Path(found.origin).parent / "applications" / "__init__.py"
    return sorted(_APPLICATION.findall(module.read_text()))
