"""How large a graph becomes where its calls are inlined, told before any is: calls of calls grow exponentially."""

from collections.abc import Iterable, Mapping, Sequence

from tfwave.errors import GraphError
from tfwave.proto.tensorflow_pb2 import FunctionDef, NodeDef

MOST_NODES = 2**19
"""This is several times what the largest models have; a node that is lowered takes some 3 KB."""
DEEPEST_CALLS = 200
"""Calls lie in calls no deeper. The name of an inlined node holds those of all the calls that it lies in."""


def refuse_too_large(nodes: Iterable[NodeDef], library: Iterable[FunctionDef]) -> None:
    """Refuse nodes that come to more than `MOST_NODES` with all calls inlined, or lie in too many calls.

    A function that calls itself counts once: the lowering refuses it where it is called.

    Raises:
        GraphError: they do; names the node with which they do and the function that it calls.
    """
    calls = _Calls(library)
    total = 0
    for node in nodes:
        for name in calls.of(node):
            calls.measure(name)
            total += calls.sizes[name]
            if total > MOST_NODES or calls.depths[name] > DEEPEST_CALLS:
                raise GraphError(
                    f"node '{node.name}': with the function '{name}' inlined, and all that it calls, the graph "
                    f"comes to {total:,} nodes, {calls.depths[name]:,} calls deep; tfwave inlines at most "
                    f"{MOST_NODES:,} nodes and {DEEPEST_CALLS} calls: cut a smaller graph"
                )


class _Calls:
    """The functions of a library, and what those that were measured come to."""

    def __init__(self, library: Iterable[FunctionDef]) -> None:
        self._bodies: Mapping[str, Sequence[NodeDef]] = {f.signature.name: f.node_def for f in library}
        self._called: dict[str, list[str]] = {}
        self.sizes: dict[str, int] = {}
        self.depths: dict[str, int] = {}

    def of(self, node: NodeDef) -> list[str]:
        """The functions that a node calls."""
        values = [value for _, value in sorted(node.attr.items())]
        named = [func.name for value in values for func in (value.func, *value.list.func)]
        return [name for name in (node.op, *named) if name in self._bodies]

    def measure(self, outermost: str) -> None:
        """Fill in `sizes` and `depths`: a function's after those that it calls."""
        waiting = [outermost]
        while waiting:
            name = waiting.pop()
            if name in self._called:
                self._sum_up(name)
                continue
            self._called[name] = [inner for node in self._bodies[name] for inner in self.of(node)]
            waiting += [name, *[inner for inner in self._called[name] if inner not in self._called]]

    def _sum_up(self, name: str) -> None:
        if name not in self.sizes:
            measured = [inner for inner in self._called[name] if inner in self.sizes]
            self.sizes[name] = len(self._bodies[name]) + sum(self.sizes[inner] for inner in measured)
            self.depths[name] = 1 + max((self.depths[inner] for inner in measured), default=0)
