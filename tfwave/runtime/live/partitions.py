"""The graphs of a function as TensorFlow's executors run them: placed, optimized and cut, one for each device."""

import importlib
from collections.abc import Callable
from typing import Any

from tfwave.errors import EnvironmentUnsupported
from tfwave.proto.tensorflow_pb2 import GraphDef
from tfwave.runtime import native

_CALLS = ("enable_run_metadata", "export_run_metadata", "disable_run_metadata")


def partition_graphs(run: Callable[[], Any]) -> tuple[Any, tuple[GraphDef, ...]]:
    """Call a function; what it returns, and its graphs.

    They are told if TensorFlow makes it ready meanwhile, which it does once for each instance.

    What tracing runs, such as the initialisation of variables, is made ready before it: the last function counts.

    Raises:
        EnvironmentUnsupported: this TensorFlow does not tell.
    """
    context = _context()
    context.enable_run_metadata()
    try:
        value = run()
        told = context.export_run_metadata()
    finally:
        context.disable_run_metadata()
    last = [graph for function in told.function_graphs[-1:] for graph in function.partition_graphs]
    return value, tuple(GraphDef.FromString(graph.SerializeToString()) for graph in last)


def _context() -> Any:
    version = native.tensorflow_version()
    context: Any = importlib.import_module("tensorflow.python.eager.context").context()
    if not all(hasattr(context, name) for name in _CALLS):
        raise EnvironmentUnsupported(
            f"TensorFlow {version} does not tell the graph of a function that it runs"
        )
    return context
