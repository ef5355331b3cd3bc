"""Running one step in several instances: TensorFlow optimizes each by itself, and none changes the others.

An instance is what TensorFlow made of a step's graph for its executors. It keeps one for each function and
configuration, or each set of a session's fetches, for good; another one costs what the first run of a step costs.
"""

import importlib
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

from tfwave.errors import EnforcerError, EnvironmentUnsupported
from tfwave.proto.tensorflow_pb2 import GraphDef
from tfwave.runtime import native
from tfwave.runtime.live.batches import bytes_of, input_bytes
from tfwave.runtime.live.partitions import partition_graphs

_NUMBERS = count(1)
_NAME = "tfwave"
TAG = f"{_NAME}/instance_"
"""How the names begin of the nodes that tell a session's instances apart."""


class FunctionInstance:
    """A `tf.function` in an instance of its own; only calls through this object run it."""

    def __init__(self, function: Any) -> None:
        """Nothing is made before the first call.

        Raises:
            EnvironmentUnsupported: this TensorFlow cannot be reached so.
        """
        self._function = function
        self._context = _eager_context()
        self._options = _call_options(self._context, next(_NUMBERS))

    def __call__(self, *batch: Any) -> Any:
        """Run a step; instances of what it calls are its own, too."""
        with self._entered():
            return self._function(*batch)

    def first(self, *batch: Any) -> tuple[Any, tuple[GraphDef, ...]]:
        """Run the first step; what it returns, and the graphs that TensorFlow made of it.

        Raises:
            EnvironmentUnsupported: this TensorFlow does not tell.
        """
        return partition_graphs(lambda: self(*batch))

    def given(self, *batch: Any) -> list[int]:
        """Bytes of what the graphs are given, by the place among their arguments: see `input_bytes`."""
        return input_bytes(self._function.get_concrete_function(*batch))

    @contextmanager
    def _entered(self) -> Generator[None]:
        """TensorFlow keeps these options by thread."""
        context = self._context.context()
        before = context.function_call_options
        context.function_call_options = self._options
        try:
            yield
        finally:
            context.function_call_options = before


class SessionInstance:
    """What a session runs for some fetches, in an instance of its own; only calls through this object run it."""

    def __init__(self, session: Any, fetches: Any, feeds: Sequence[Any]) -> None:
        """Adds a NoOp to the session's graph, which nothing else runs.

        Raises:
            EnforcerError: the graph is finalized.
        """
        if session.graph.finalized:
            raise EnforcerError(
                "the session's graph is finalized (a MonitoredSession does that): use a plain session"
            )
        self._session = session
        self._fetches = fetches
        self._feeds = tuple(feeds)
        tensorflow = importlib.import_module("tensorflow")
        with (
            session.graph.as_default(),
            tensorflow.name_scope(""),
            tensorflow.device(None),
            tensorflow.control_dependencies(None),
        ):
            self._tag: Any = tensorflow.no_op(name=f"{TAG}{next(_NUMBERS)}")

    def __call__(self, *batch: Any) -> Any:
        """Run a step, a value of the batch for each of the feeds.

        Raises:
            EnforcerError: there are more of one than of the other.
        """
        return self._run(batch, None, None)

    def first(self, *batch: Any) -> tuple[Any, tuple[GraphDef, ...]]:
        """Run the first step; what it returns, and the graphs that TensorFlow made of it, without the NoOp."""
        v1: Any = importlib.import_module("tensorflow").compat.v1
        told = v1.RunMetadata()
        value = self._run(batch, v1.RunOptions(output_partition_graphs=True), told)
        return value, tuple([_untagged(graph) for graph in told.partition_graphs])

    def given(self, *batch: Any) -> list[int]:
        """Bytes of what is fed, by the place among the graphs' arguments: TensorFlow sorts them by name."""
        fed = sorted(zip(self._feeds, batch, strict=True), key=lambda each: each[0].name)
        return [bytes_of((value,)) for _, value in fed]

    def _run(self, batch: Sequence[Any], options: Any, metadata: Any) -> Any:
        if len(batch) != len(self._feeds):
            raise EnforcerError(
                f"a batch has {len(batch)} parts, and its step feeds {len(self._feeds)} tensors: give "
                "SessionStep(feeds=[...]) one for each part"
            )
        feed_dict = dict(zip(self._feeds, batch, strict=True))
        return self._session.run((self._fetches, self._tag), feed_dict, options, metadata)[0]


def _untagged(graph: Any) -> GraphDef:
    whole = GraphDef.FromString(graph.SerializeToString())
    kept = [node for node in whole.node if not node.name.startswith(TAG)]
    return GraphDef(node=kept, library=whole.library, versions=whole.versions)


def _eager_context() -> Any:
    version = native.tensorflow_version()
    module: Any = importlib.import_module("tensorflow.python.eager.context")
    if not hasattr(module, "FunctionCallOptions") or not hasattr(module.context(), "function_call_options"):
        raise EnvironmentUnsupported(f"TensorFlow {version} takes no options for the functions of a thread")
    return module


def _call_options(module: Any, number: int) -> Any:
    """The options in force, made unlike all others by the name that a model server would give."""
    options = module.context().function_call_options
    config_proto: Any = importlib.import_module("tensorflow").compat.v1.ConfigProto
    config = config_proto.FromString(options.config_proto_serialized)
    config.experimental.session_metadata.name = _NAME
    config.experimental.session_metadata.version = number
    return module.FunctionCallOptions(executor_type=options.executor_type, config_proto=config)
