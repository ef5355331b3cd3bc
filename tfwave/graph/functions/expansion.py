"""What the lowering of loops and of branches has in common: nodes named after the one that they replace."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from tfwave.errors import GraphError
from tfwave.graph.functions.nodes import Node, NodeGraph, Tensor, type_attr
from tfwave.proto.tensorflow_pb2 import AttrValue, NameAttrList, NodeDef

MULTI_DEVICE = "_lower_as_multi_device_function"

_NO_ATTRS: Mapping[str, AttrValue] = MappingProxyType({})


@dataclass(frozen=True)
class Expansion:
    """A node of functional control flow and the graph in which others take its place."""

    graph: NodeGraph
    node: Node

    def new_name(self, role: str) -> str:
        """The next name that TensorFlow generates for a role, such as ``while/enter/_7``."""
        return self.graph.new_name(f"{self.node.name}/{role}")

    def add(
        self,
        name: str,
        op: str,
        inputs: Iterable[Tensor] = (),
        controls: Iterable[Node] = (),
        attrs: Mapping[str, AttrValue] = _NO_ATTRS,
    ) -> Node:
        """Insert a node on the device of the expanded node."""
        definition = NodeDef(name=name, op=op, device=self.node.device, attr=attrs)
        return self.graph.add(definition, inputs, controls, self.node.functions)

    def add_typed(
        self, name: str, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, AttrValue] = _NO_ATTRS
    ) -> Node:
        """Insert a node whose type `T` is that of its first input."""
        kind = type_attr(self.graph.type_of(inputs[0]))
        return self.add(name, op, inputs, attrs={"T": kind, **attrs})

    def add_beside(
        self,
        other: Node,
        name: str,
        op: str,
        inputs: Sequence[Tensor],
        attrs: Mapping[str, AttrValue] = _NO_ATTRS,
    ) -> Node:
        """As `add_typed`, on the device of another node."""
        node = self.add_typed(name, op, inputs, attrs)
        node.place_like(other)
        return node

    def add_call(self, name: str, function: NameAttrList, inputs: Iterable[Tensor], control: Node) -> Node:
        """Insert the call of a function that runs in its own frame or branch: after `control`."""
        attrs = {MULTI_DEVICE: AttrValue(b=True), **function.attr}
        return self.add(name, function.name, inputs, [control], attrs)

    def function(self, attr: str) -> NameAttrList:
        """The function that an attribute of the expanded node names.

        Raises:
            GraphError: no such attribute, or the library has no such function.
        """
        if attr not in self.node.definition.attr:
            raise GraphError(f"node '{self.node.name}': {self.node.op} needs the attribute '{attr}'")
        return self.known(self.node.definition.attr[attr].func)

    def known(self, function: NameAttrList) -> NameAttrList:
        """The function itself, if the library has it."""
        if function.name not in self.graph.functions:
            raise GraphError(
                f"node '{self.node.name}': the function '{function.name}' is not in the graph's library"
            )
        return function
