"""When the nodes of a step have their turn, and who reads what, while the step is rewritten."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence

from tfwave.graph.attrs import string_attr
from tfwave.graph.marks import added_by
from tfwave.graph.names import CONTROL_PORT, TensorName, parse_input
from tfwave.graph.rewriter import GraphRewriter
from tfwave.proto.tensorflow_pb2 import AttrValue, NodeDef
from tfwave.rewrite.fitted.beside import awaited, first_beside

BEFORE = "_tfwave_before"
"""On a node that was added to a fitted step: the node of its own that it runs before."""


def is_done(graph: GraphRewriter) -> bool:
    """Did the pass that edits this graph add nodes to it before?"""
    return any(added_by(node) == graph.author for node in graph.view.nodes)


class Turns:
    """The nodes of a graph in the order of a fitted step.

    1. A node of the order has its turn there.
    2. A node that was added has it just before the one that it was added for.
    3. Any other runs as soon as it can: with the last of what it waits for.
    """

    def __init__(
        self, graph: GraphRewriter, order: Sequence[str], chained: Sequence[str], beside: Sequence[int]
    ) -> None:
        """Edit `graph`; only `chained` nodes of the order keep their turn for sure, with so many `beside` each."""
        self.graph = graph
        self.order = tuple(order)
        self._places = {name: float(place) for place, name in enumerate(self.order)}
        there = [index for index, name in enumerate(chained) if graph.has_node(name)]
        self.chained = tuple(chained[index] for index in there)
        self._beside = [
            number - bisect_left(there, first_beside(beside, index)) for number, index in enumerate(there)
        ]
        self._chained_places = [self._places[name] for name in self.chained]
        self._turns: dict[str, float] = {}
        self._readers: dict[TensorName, dict[tuple[str, int], None]] = defaultdict(dict)
        self._added: dict[str, list[str]] = defaultdict(list)
        view = graph.view
        for number in view.topological_order:
            self._take(graph.node(view.names[number]))

    def of(self, name: str) -> float:
        """The turn of a node."""
        return self._turns[name]

    def at(self, name: str) -> float:
        """The place of a node of the order."""
        return self._places[name]

    def added_before(self, name: str) -> Sequence[str]:
        """What was added to run before a node of the order, in the order in which it came."""
        return self._added.get(name, ())

    def index(self, name: str) -> int:
        """The number of the first node that keeps its turn, from one of the order on."""
        return bisect_left(self._chained_places, self._places[name])

    def awaited(self, index: int) -> tuple[str, ...]:
        """For which nodes the one of a number has to wait, so that it keeps its turn; behind the last: for all."""
        return tuple(self.chained[number] for number in awaited(self._beside, index))

    def chained_from(self, name: str) -> str | None:
        """The first node that keeps its turn, that one or a later one."""
        index = self.index(name)
        return self.chained[index] if index < len(self.chained) else None

    def readers(self, tensor: TensorName, since: str = "", until: str = "") -> list[tuple[str, int]]:
        """Nodes that read a tensor, with the position: from the turn of a node on, or before that of another."""
        low = self._places[since] - 0.5 if since else float("-inf")
        high = self._places[until] - 0.5 if until else float("inf")
        return [reader for reader in self._readers.get(tensor, ()) if low <= self._turns[reader[0]] < high]

    def add(self, node: NodeDef, before: str = "") -> str:
        """Add a node, to run before one of the order or as soon as it can; returns its name."""
        if before:
            node.attr[BEFORE].CopyFrom(AttrValue(s=before.encode()))
        self.graph.insert(node)
        self._take(self.graph.node(node.name))
        return node.name

    def redirect(self, reader: tuple[str, int], tensor: str) -> None:
        """Let a node read another tensor at a position."""
        name, position = reader
        del self._readers[parse_input(self.graph.node(name).input[position])][reader]
        self.graph.redirect(name, position, tensor)
        self._readers[parse_input(tensor)][reader] = None

    def _take(self, node: NodeDef) -> None:
        self._turns[node.name] = self._turn(node)
        before = string_attr(node, BEFORE)
        if before in self._places:
            self._added[before].append(node.name)
        for position, text in enumerate(node.input):
            source = parse_input(text)
            if source.port != CONTROL_PORT:
                self._readers[source][node.name, position] = None

    def _turn(self, node: NodeDef) -> float:
        if node.name in self._places:
            return self._places[node.name]
        before = string_attr(node, BEFORE)
        if before in self._places:
            return self._places[before] - 0.5
        return max((self._turns.get(parse_input(text).node, -1.0) for text in node.input), default=-1.0)
