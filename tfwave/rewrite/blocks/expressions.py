"""Elementwise expressions beside a variable: what of them can be computed block by block, and is worth it."""

from collections.abc import Iterator, Mapping, Set

from tfwave.graph.names import TensorName, parse_input
from tfwave.graph.view import GraphView
from tfwave.rewrite.blocks.elementwise import BINARY, UNARY
from tfwave.rewrite.blocks.layout import Layout
from tfwave.rewrite.blocks.shapes import Shape

Operands = tuple[int, ...]
"""The positions of the inputs that have the shape of the result; the others are scalars."""


class Expressions:
    """Answers about the elementwise nodes of one graph.

    Args:
        view: the graph.
        shapes: of its nodes' first outputs.
        devices: of its nodes, full names.
        reads: the nodes that read a variable that is cut, with its layout.
        fed: nodes whose values come from the client, whatever the graph says.
    """

    def __init__(
        self,
        view: GraphView,
        shapes: Mapping[str, Shape],
        devices: Mapping[str, str],
        reads: Mapping[str, Layout],
        fed: Set[str],
    ) -> None:
        self._view = view
        self._shapes = shapes
        self._devices = devices
        self._reads = reads
        self._fed = fed
        self._index = {name: i for i, name in enumerate(view.names)}
        self._places = {node: place for place, node in enumerate(view.topological_order)}

    def operands(self, name: str, layout: Layout) -> Operands | None:
        """Of a node whose result has the shape of the layout; None if it cannot be computed block by block.

        Case 1: one input, or inputs that all have one shape. Case 2: two inputs of which one is a scalar: the other
        has the shape of the result. Case 3: two inputs of that shape.
        """
        index = self._index[name]
        op, count = self._view.ops[index], self._view.data_fanins[index]
        if name in self._fed:
            return None
        if (op in UNARY and count == 1) or op == "AddN":
            return tuple(range(count))
        if op not in BINARY or count != 2:
            return None
        shapes = [self._shape(parse_input(text)) for text in self._view.nodes[index].input[:2]]
        if () in shapes:
            return (1,) if shapes[0] == () else (0,)
        return (0, 1) if shapes == [layout.shape] * 2 else None

    def by_block(self, tensor: TensorName, layout: Layout, device: str) -> dict[str, Operands]:
        """The nodes on `device` that are to be computed block by block for a tensor, in topological order.

        Only those that read, over other such nodes, something of another device or a variable that is cut alike:
        else nothing is won.
        """
        found: dict[str, Operands] = {}
        stack = [tensor]
        while stack:
            name, port = stack.pop()
            if port or name in found or self._devices[name] != device or name in self._reads:
                continue
            operands = self.operands(name, layout)
            if operands is not None:
                found[name] = operands
                stack += self.inputs(name, operands)
        wins: dict[str, Operands] = {}
        for name in sorted(found, key=lambda name: self._places[self._index[name]]):
            if any(self._wins(source, layout, device, wins) for source in self.inputs(name, found[name])):
                wins[name] = found[name]
        return wins

    def inputs(self, name: str, operands: Operands) -> Iterator[TensorName]:
        """The tensors at these positions."""
        node = self._view.nodes[self._index[name]]
        return (parse_input(node.input[position]) for position in operands)

    def _wins(
        self, tensor: TensorName, layout: Layout, device: str, wins: Set[str] | Mapping[str, Operands]
    ) -> bool:
        name = tensor.node
        return (
            self._devices[name] != device
            or (self._reads.get(name) == layout and tensor.port == 0)
            or (name in wins and tensor.port == 0)
        )

    def _shape(self, tensor: TensorName) -> Shape:
        return self._shapes.get(tensor.node) if tensor.port == 0 else None
