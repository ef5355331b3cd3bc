"""What a sample is: a real graph, and the means to run any rewriting of it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from tfwave.graph.item import GraphItem
from tfwave.graph.load import parse_graph
from tfwave.graph.names import parse_input
from tfwave.graph.reach import upstream_of
from tfwave.graph.view import SEND_OPS, GraphView

Array = np.ndarray[Any, Any]


class Sample(Protocol):
    """A graph as TensorFlow wrote it, neither optimised nor pruned, with all that a run of it needs."""

    @property
    def name(self) -> str: ...

    @property
    def graph(self) -> bytes:
        """The GraphDef."""
        ...

    @property
    def feeds(self) -> Mapping[str, Array]:
        """The values of the input tensors, equal in every step."""
        ...

    @property
    def fetches(self) -> tuple[str, ...]:
        """The output tensors; the first is a number that each step changes, such as the loss."""
        ...

    @property
    def targets(self) -> tuple[str, ...]:
        """The nodes that a step must run besides, such as the updates of the variables."""
        ...

    @property
    def devices(self) -> tuple[str, ...]:
        """The full names of the devices in use, sorted."""
        ...

    @property
    def handles(self) -> Mapping[str, str]:
        """The device of each resource that comes in from outside, by the name of its input tensor."""
        ...

    def item(self, graph: bytes | None = None) -> GraphItem:
        """The sample's own graph, or a rewriting of it, with the names that must stay."""
        ...

    def run(self, graph: bytes, *, grappler: bool, steps: int = 2) -> list[Array]:
        """Start afresh and run `graph`, which may be cut into partitions, for some steps.

        Two runs of one graph give the same bits.

        Returns:
            The values of `fetches` step by step, then the final values of the variables.
        """
        ...

    def partition_graphs(self, graph: bytes, *, grappler: bool = False) -> list[bytes]:
        """TensorFlow's own cut of one step: a GraphDef per device, in the order of the devices."""
        ...


def make_item(
    graph: bytes, feeds: Sequence[str], fetches: Sequence[str], preserve: Sequence[str]
) -> GraphItem:
    """A GraphItem of serialised bytes."""
    return GraphItem(parse_graph(graph, "sample"), tuple(feeds), tuple(fetches), frozenset(preserve))


def sends_needed(graph: bytes, names: Iterable[str]) -> list[str]:
    """The `_Send`s on whose tensors some nodes wait: of a graph that is cut, they must be run besides."""
    view = GraphView.of(parse_graph(graph, "sample"))
    index = {name: i for i, name in enumerate(view.names)}
    needed = upstream_of(view, [index[parse_input(name).node] for name in names])
    return [view.names[node] for node in sorted(needed) if view.ops[node] in SEND_OPS]


def serialise(partitions: Iterable[Any]) -> list[bytes]:
    """The bytes of each partition, in the order of their devices."""
    return [p.SerializeToString() for p in sorted(partitions, key=lambda p: p.node[0].device)]


def first_fetch(sample: Sample, results: Sequence[Array], steps: int) -> list[Array]:
    """The first fetch of each step, picked from what `run` returned."""
    width = len(sample.fetches)
    return list(results[: steps * width : width])


def same_bits(first: Sequence[Array], second: Sequence[Array]) -> bool:
    """Equal in number, type, shape and every bit (a NaN equals itself)."""
    return len(first) == len(second) and all(map(_same, first, second))


def _same(first: Array, second: Array) -> bool:
    if first.dtype != second.dtype or first.shape != second.shape:
        return False
    if first.dtype == object:
        return first.tolist() == second.tolist()
    return first.tobytes() == second.tobytes()
