"""What the gradients of a traced step take."""

from collections.abc import Collection, Iterable

from tfwave.graph.names import parse_input
from tfwave.memory.step import StepMemory
from tfwave.rewrite.fitted.views import VIEW_OPS
from tfwave.rewrite.waves.training import Gradient, Training


def gradient_bytes(training: Training, gradients: Iterable[Gradient], memory: StepMemory) -> int:
    """The bytes of the buffers in which some gradients of a step lie, by a trace of it.

    Where the trace lacks a gradient that is a view, which TensorFlow's optimizer leaves out, that is the buffer of
    what it is a view of.
    """
    traced = frozenset(name for tensor in memory.tensors for name in tensor.names)
    names = {_traced_name(training, gradient, traced) for gradient in gradients}
    return sum(tensor.bytes for tensor in memory.tensors if not names.isdisjoint(tensor.names))


def _traced_name(training: Training, gradient: Gradient, traced: Collection[str]) -> str:
    """``node:port`` of a gradient, or of the nearest tensor that it is a view of and that is traced."""
    view, node, port = training.step.view, gradient.node, gradient.tensor.port
    while (name := f"{view.names[node]}:{port}") not in traced and view.ops[node] in VIEW_OPS:
        node, port = view.fanins[node][0], parse_input(view.nodes[node].input[0]).port
    return name
