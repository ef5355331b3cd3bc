"""Functions in place of their calls."""

from dataclasses import dataclass

from tfwave.graph.functions.lower import lower
from tfwave.graph.rewriter import GraphRewriter
from tfwave.passes.base import GraphPass
from tfwave.rewrite.own_names import become, named_apart


@dataclass(frozen=True)
class Inline(GraphPass):
    """Put the bodies of functions in the place of their calls, so that the passes behind this one see them.

    As TensorFlow itself does before it runs a graph, names and devices included: While, If and Case that are marked
    for it become the control flow of its executor; what XLA is to compile, and functions that must not be inlined,
    stay calls. Each call leaves a node of its name, which can still be fetched.

    Of a SavedModel of TensorFlow 2 that is what a session and TensorFlow Serving run. `tf.saved_model.load` calls
    functions of its library, which stay as they are.

    Raises:
        GraphError: a function calls itself, or does not fit its call; names the node.
    """

    def run(self, graph: GraphRewriter) -> None:
        """Inline all calls, also those in what was inlined."""
        lowered = lower(graph.item, inline_calls=True)
        if lowered is not graph.item:
            become(graph, named_apart([lowered.graph], frozenset(graph.view.names), self.name))
