"""A graph that is being lowered: nodes joined by references, so that a name may move from node to node.

Used inside this package only: a compile step reads one GraphDef and writes another.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from tfwave.errors import GraphError
from tfwave.graph.flow_ops import ARG_OPS, CALL_OPS
from tfwave.graph.insertion import insertion_order
from tfwave.graph.names import CONTROL_PORT, parse_input
from tfwave.graph.ops import REF, OpTable
from tfwave.graph.view import GraphView
from tfwave.proto.tensorflow_pb2 import AttrValue, DataType, FunctionDef, GraphDef, NodeDef

GRADIENT_CALL = "SymbolicGradient"


class Tensor(NamedTuple):
    """An output of a node."""

    node: "Node"
    port: int


@dataclass(eq=False)
class Node:
    """A node and its edges; `definition` is its own copy, without inputs."""

    definition: NodeDef
    inputs: list[Tensor]
    controls: dict["Node", None]
    """The nodes that must run before, in the order of insertion."""
    functions: tuple[str, ...] = ()
    """The functions that the node was inlined from, outermost first."""
    assigned: bool = False
    """Is its device fixed already? TensorFlow places the arguments of a function before it lowers."""
    fanouts: dict["Node", None] = field(default_factory=dict["Node", None])

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def op(self) -> str:
        return self.definition.op

    @property
    def device(self) -> str:
        return self.definition.device

    @property
    def requested_device(self) -> str:
        return "" if self.assigned else self.definition.device

    def place_like(self, other: "Node") -> None:
        """Take over the device of another node."""
        self.definition.device = other.device
        self.assigned = other.assigned


class NodeGraph:
    """The nodes of one graph in order of insertion, as TensorFlow's Graph keeps them."""

    def __init__(self, functions: Iterable[FunctionDef]) -> None:
        """An empty graph whose nodes may call `functions`."""
        self.functions = {function.signature.name: function for function in functions}
        self.table = OpTable(self.functions.values())
        self._nodes: list[Node] = []
        self._replaced: set[Node] = set()
        self._names = 0

    @classmethod
    def of(cls, graph: GraphDef) -> "NodeGraph":
        """A graph with the nodes of a GraphDef, in the order in which TensorFlow would insert them.

        Raises:
            GraphError: what `GraphView.of` refuses, or a cycle that is not a while loop.
        """
        view = GraphView.of(graph)
        made = cls(graph.library.function)
        nodes: dict[str, Node] = {}
        for i in insertion_order(view):
            nodes[view.names[i]] = node = made.add(copied(view.nodes[i]))
            node.assigned = node.op in ARG_OPS
        for i, definition in enumerate(view.nodes):
            made.connect(nodes[view.names[i]], definition.input, nodes)
        return made

    def __iter__(self) -> Iterator[Node]:
        """The nodes that were not replaced, those that are added meanwhile included."""
        return (node for node in self._nodes if node not in self._replaced)

    def new_name(self, prefix: str) -> str:
        """A name that TensorFlow generates: the prefix and the next number of the graph."""
        name = f"{prefix}/_{self._names}"
        self._names += 1
        return name

    def add(
        self,
        definition: NodeDef,
        inputs: Iterable[Tensor] = (),
        controls: Iterable[Node] = (),
        functions: tuple[str, ...] = (),
    ) -> Node:
        """Insert a node, which takes `definition` as its own."""
        node = Node(definition, [], {}, functions)
        self._nodes.append(node)
        for tensor in inputs:
            self._add_input(node, tensor)
        for control in controls:
            self.add_control(control, node)
        return node

    def connect(self, node: Node, inputs: Iterable[str], nodes: Mapping[str, Node]) -> None:
        """Add inputs that are given by name (``node:port`` or ``^node``)."""
        for text in inputs:
            name, port = parse_input(text)
            if port == CONTROL_PORT:
                self.add_control(nodes[name], node)
            else:
                self._add_input(node, Tensor(nodes[name], port))

    def _add_input(self, node: Node, tensor: Tensor) -> None:
        node.inputs.append(tensor)
        tensor.node.fanouts[node] = None

    def set_input(self, node: Node, index: int, tensor: Tensor) -> None:
        """Read a data input from another tensor."""
        node.inputs[index] = tensor
        tensor.node.fanouts[node] = None

    def add_control(self, source: Node, target: Node) -> None:
        """Run `target` after `source`."""
        target.controls[source] = None
        source.fanouts[target] = None

    def replace(self, node: Node, outputs: Sequence[Tensor], control: Node) -> None:
        """Take a node out: what reads port i reads ``outputs[i]``, what waits for the node waits for `control`.

        Raises:
            GraphError: a reader of a port that the node does not have.
        """
        for reader in list(node.fanouts):
            for i, (source, port) in enumerate(reader.inputs):
                if source is node:
                    self.set_input(reader, i, _pick(node, reader, outputs, port))
            if node in reader.controls:
                del reader.controls[node]
                self.add_control(control, reader)
        for source in {tensor.node: None for tensor in node.inputs} | node.controls:
            source.fanouts.pop(node, None)
        self._replaced.add(node)

    def is_call(self, op: str) -> bool:
        """Whether nodes of this op call a function."""
        return op in CALL_OPS or op == GRADIENT_CALL or op in self.functions

    def input_types(self, node: Node) -> list[int]:
        """The declared types of a node's data inputs, without the mark of references."""
        return [kind % REF for kind in self.table.input_types(node.definition)]

    def output_types(self, node: Node) -> list[int]:
        """The types of a node's outputs, without the mark of references."""
        return [kind % REF for kind in self.table.output_types(node.definition)]

    def type_of(self, tensor: Tensor) -> int:
        """The type of a tensor, without the mark of references.

        Raises:
            GraphError: the node has no such output, or an unknown op.
        """
        kinds = self.output_types(tensor.node)
        if tensor.port >= len(kinds):
            raise GraphError(f"node '{tensor.node.name}' ({tensor.node.op}) has no output {tensor.port}")
        return kinds[tensor.port]

    def definitions(self) -> Iterator[NodeDef]:
        """The nodes as protos; control inputs are sorted by name, as TensorFlow sorts them."""
        for node in self:
            definition = copied(node.definition)
            definition.input.extend([f"{n.name}:{port}" if port else n.name for n, port in node.inputs])
            definition.input.extend(sorted([f"^{control.name}" for control in node.controls]))
            yield definition


def copied(definition: NodeDef) -> NodeDef:
    """A copy of a NodeDef without its inputs."""
    copy = NodeDef()
    copy.CopyFrom(definition)
    del copy.input[:]
    return copy


def type_attr(kind: int) -> AttrValue:
    """A type (a `DataType`) as an attribute."""
    return AttrValue(type=cast("DataType", kind))


def types_attr(kinds: Iterable[int]) -> AttrValue:
    """A list of types as an attribute."""
    return AttrValue(list=AttrValue.ListValue(type=[cast("DataType", kind) for kind in kinds]))


def strings_attr(*texts: str) -> AttrValue:
    """A list of strings as an attribute."""
    return AttrValue(list=AttrValue.ListValue(s=[text.encode() for text in texts]))


def _pick(node: Node, reader: Node, outputs: Sequence[Tensor], port: int) -> Tensor:
    if port >= len(outputs):
        raise GraphError(
            f"node '{reader.name}' reads output {port} of '{node.name}', which has {len(outputs)}"
        )
    return outputs[port]
