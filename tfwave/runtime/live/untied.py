"""Steps whose gradients are pushed one by one, also those of Keras 3's optimizers."""

from typing import Any

from tfwave.passes.text import build_pass
from tfwave.runtime.live.install import rewrite_trace
from tfwave.runtime.live.retrace import when_traced


def untie_when_traced(graph: Any) -> None:
    """Run the pass `untie` on the graph of a `tf.function` that is being traced, once it is complete.

    Nothing is done where functions run eagerly.

    Raises:
        EnvironmentUnsupported: this TensorFlow keeps its traces otherwise.
    """
    if graph.building_function:
        when_traced(graph, _untie)


def _untie(graph: Any) -> None:
    if any(operation.type == "IdentityN" for operation in graph.get_operations()):
        rewrite_trace(graph, build_pass("untie", {}))
