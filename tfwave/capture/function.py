"""What a traced function of a strategy's job sends between its tasks, without running it."""

from dataclasses import dataclass
from typing import Any

from tfwave.graph.partition.cut import cut
from tfwave.graph.transfer import Transfer, find_transfers
from tfwave.graph.view import GraphView
from tfwave.runtime.live.replay import traced_item


@dataclass(frozen=True)
class FunctionGraph:
    """One traced function, cut as the worker that runs it will cut it.

    `name` is TensorFlow's own of the trace, another one for each input signature; `transfers` are the tensors that
    arrive at `worker` from other tasks.
    """

    name: str
    worker: str
    view: GraphView
    transfers: tuple[Transfer, ...]


def capture_function(concrete: Any, worker: str) -> FunctionGraph:
    """Cut a `ConcreteFunction` as TensorFlow does where `worker` (a full device name) runs it.

    Raises:
        GraphError: the function cannot be cut offline; names the node.
    """
    partitions = cut(traced_item(concrete.graph), default=worker)
    view = GraphView.of(*partitions)
    return FunctionGraph(function_name(concrete), worker, view, find_transfers(view).into(worker).data)


def function_name(concrete: Any) -> str:
    """The name under which TensorFlow registers a trace, such as ``__inference_step_64``."""
    name: Any = concrete.function_def.signature.name
    return name.decode() if isinstance(name, bytes) else str(name)
