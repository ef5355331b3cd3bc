"""A job's barriers in the graph that TensorFlow runs: after its own optimizer, so that names are those of a trace.

Both passes here are for `in_grappler`, and for the graphs of the thread that makes them.
"""

from threading import get_ident

from tfwave.graph.item import GraphItem
from tfwave.graph.view import GraphView
from tfwave.passes.base import PassResult, Transform
from tfwave.runtime.live.instances import TAG

_Key = frozenset[tuple[str, str]]


class _OfThisThread(Transform):
    """What is to be done with each graph of one thread."""

    def __init__(self) -> None:
        self._thread = get_ident()

    def __call__(self, item: GraphItem) -> PassResult:
        """Leave alone what is another thread's."""
        return self.on_graph(item) if get_ident() == self._thread else PassResult(item)

    def apply(self, item: GraphItem, view: GraphView) -> tuple[PassResult, GraphView]:
        """As part of a pipeline."""
        result = self(item)
        return result, GraphView.of(result.item.graph) if result.changed else view

    def on_graph(self, item: GraphItem) -> PassResult:
        """To be filled in."""
        raise NotImplementedError


class Watch(_OfThisThread):
    """Notes the graphs whenever Grappler shows them: as they are the last time, they run. Changes nothing."""

    def __init__(self) -> None:
        """For this thread."""
        super().__init__()
        self.seen: list[GraphItem] = []

    def on_graph(self, item: GraphItem) -> PassResult:
        """Note it."""
        self.seen.append(item)
        return PassResult(item)

    def __str__(self) -> str:
        return "watch"


class Insert(_OfThisThread):
    """Runs a pass on the graph that was watched before, once it has become that; `done` tells whether it has.

    Earlier, a barrier could keep Grappler from what it does.
    """

    def __init__(self, graph_pass: Transform, watched: GraphItem) -> None:
        """For this thread."""
        super().__init__()
        self._pass = graph_pass
        self._key = _key(watched)
        self.done = False

    def on_graph(self, item: GraphItem) -> PassResult:
        """Rewrite it, if it is that graph."""
        if self.done or _key(item) != self._key:
            return PassResult(item)
        self.done = True
        return self._pass(item)

    def __str__(self) -> str:
        return str(self._pass)


def _key(item: GraphItem) -> _Key:
    return frozenset((node.name, node.op) for node in item.graph.node if not node.name.startswith(TAG))
