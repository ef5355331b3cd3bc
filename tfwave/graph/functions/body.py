"""A FunctionDef as plain nodes: what TensorFlow calls instantiating a function.

Inside a FunctionDef an input is written ``argument``, ``node:output_argument`` or
``node:output_argument:index``; in a GraphDef it is ``node`` or ``node:port``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tfwave.errors import GraphError
from tfwave.graph.flow_ops import RETVAL_OPS
from tfwave.graph.functions.binding import Binding
from tfwave.graph.functions.nodes import copied, type_attr
from tfwave.graph.insertion import insertion_order
from tfwave.graph.ops import OpTable
from tfwave.graph.view import GraphView
from tfwave.proto.tensorflow_pb2 import DT_INT32, AttrValue, FunctionDef, GraphDef, NodeDef, OpDef

_INTS_ON_DEVICE = "experimental_ints_on_device"


@dataclass(frozen=True)
class FunctionBody:
    """An instantiated function."""

    name: str
    nodes: tuple[NodeDef, ...]
    """`_Arg` and `_Retval` nodes included, in the order in which TensorFlow inserts them."""
    arguments: tuple[NodeDef, ...]
    """The `_Arg` nodes by index."""
    returns: tuple[NodeDef, ...]
    """The `_Retval` nodes by index."""
    control_returns: frozenset[str]
    """The nodes that must run whenever the function is called."""

    @property
    def argument_types(self) -> list[int]:
        return [node.attr["T"].type for node in self.arguments]

    @property
    def return_types(self) -> list[int]:
        return [node.attr["T"].type for node in self.returns]


def instantiate(function: FunctionDef, attrs: Mapping[str, AttrValue], table: OpTable) -> FunctionBody:
    """Turn a function into plain nodes, its attribute placeholders bound to `attrs` (those of the call).

    Raises:
        GraphError: an attribute without value, an input, return or control return that names nothing, an
            unknown op, a wrong number of inputs; names the node and the function.
    """
    try:
        return _Instance(function, attrs, table).body()
    except GraphError as error:
        raise GraphError(f"function '{function.signature.name}': {error}") from error


class _Instance:
    """One run of `instantiate`: the nodes made so far, and what each input text of the function means."""

    def __init__(self, function: FunctionDef, attrs: Mapping[str, AttrValue], table: OpTable) -> None:
        self._function = function
        self._binding = Binding.of(function.signature, attrs)
        self._table = table
        ints = function.attr.get(_INTS_ON_DEVICE)
        self._ints_on_device = ints is not None and ints.b
        self._nodes: dict[str, NodeDef] = {}
        self._tensors: dict[str, Sequence[str]] = {}

    def body(self) -> FunctionBody:
        signature = self._function.signature
        arguments: list[NodeDef] = []
        for position, arg in enumerate(signature.input_arg):
            arguments += self._add_arguments(arg, position, len(arguments))
        made = [self._add_node(node) for node in self._function.node_def]
        for node, definition in zip(made, self._function.node_def, strict=True):
            self._add_inputs(node, definition)
        returns: list[NodeDef] = []
        for arg in signature.output_arg:
            returns += self._add_returns(arg, len(returns))
        nodes = _in_insertion_order(self._nodes)
        return FunctionBody(signature.name, nodes, tuple(arguments), tuple(returns), self._control_returns())

    def _add_arguments(self, arg: OpDef.ArgDef, position: int, index: int) -> list[NodeDef]:
        """One `_Arg` for each tensor of an argument."""
        nodes = self._add_ends("Arg", arg, arg.name, index)
        for node in nodes:
            self._annotate(node, position)
        self._name_tensors(arg.name, [node.name for node in nodes])
        return nodes

    def _add_returns(self, arg: OpDef.ArgDef, index: int) -> list[NodeDef]:
        """One `_Retval` for each tensor of a return."""
        if arg.name not in self._function.ret:
            raise GraphError(f"the return '{arg.name}' is missing")
        tensors = self._resolve(self._function.ret[arg.name], f"the return '{arg.name}'")
        nodes = self._add_ends("Retval", arg, f"{arg.name}_RetVal", index)
        if len(tensors) != len(nodes):
            raise GraphError(f"the return '{arg.name}' has {len(tensors)} tensors instead of {len(nodes)}")
        for node, tensor in zip(nodes, tensors, strict=True):
            node.input.append(tensor)
        return nodes

    def _add_ends(self, op: str, arg: OpDef.ArgDef, name: str, index: int) -> list[NodeDef]:
        """The nodes of a list are told apart by a suffix: ``x_0``, ``x_1``."""
        types = self._binding.types(arg)
        if not types:
            raise GraphError(f"the list '{arg.name}' is empty, which TensorFlow does not allow")
        return [
            self._add(
                NodeDef(
                    name=name if len(types) == 1 else f"{name}_{i}",
                    op=f"_Device{op}" if self._ints_on_device and kind == DT_INT32 else f"_{op}",
                    attr={"T": type_attr(kind), "index": AttrValue(i=index + i)},
                )
            )
            for i, kind in enumerate(types)
        ]

    def _annotate(self, node: NodeDef, position: int) -> None:
        if position in self._function.resource_arg_unique_id:
            node.attr["_resource_arg_unique_id"].i = self._function.resource_arg_unique_id[position]
        if position in self._function.arg_attr:
            for name, value in self._function.arg_attr[position].attr.items():
                node.attr[name].CopyFrom(value)

    def _add_node(self, definition: NodeDef) -> NodeDef:
        node = self._add(copied(definition))
        try:
            self._binding.bind(node)
        except GraphError as error:
            raise GraphError(f"node '{node.name}': {error}") from error
        for name, ports in self._table.output_ports(node).items():
            tensors = [f"{node.name}:{port}" if port else node.name for port in ports]
            self._name_tensors(f"{node.name}:{name}", tensors)
        return node

    def _add(self, node: NodeDef) -> NodeDef:
        if self._nodes.setdefault(node.name, node) is not node:
            raise GraphError(f"the name '{node.name}' is used more than once")
        return node

    def _name_tensors(self, name: str, tensors: Sequence[str]) -> None:
        self._tensors[name] = tensors
        for i, tensor in enumerate(tensors):
            self._tensors[f"{name}:{i}"] = [tensor]

    def _add_inputs(self, node: NodeDef, definition: NodeDef) -> None:
        data = [text for text in definition.input if not text.startswith("^")]
        tensors = [tensor for text in data for tensor in self._resolve(text, f"node '{node.name}'")]
        wanted = len(self._table.input_types(node))
        if len(tensors) != wanted:
            raise GraphError(f"node '{node.name}': {node.op} takes {wanted} inputs, not {len(tensors)}")
        node.input.extend(tensors)
        node.input.extend(self._control(text, node) for text in definition.input if text.startswith("^"))

    def _resolve(self, text: str, reader: str) -> Sequence[str]:
        tensors = self._tensors.get(text)
        if tensors is None:
            raise GraphError(f"{reader}: the input '{text}' names no tensor of the function")
        return tensors

    def _control(self, text: str, node: NodeDef) -> str:
        """A control input names a node, or an argument that may be a list."""
        name = text[1:]
        if name in self._nodes:
            return text
        return "^" + self._resolve(name, f"node '{node.name}'")[0]

    def _control_returns(self) -> frozenset[str]:
        names = frozenset(self._function.control_ret.values())
        for name in sorted(names):
            if name not in self._nodes or self._nodes[name].op in RETVAL_OPS:
                raise GraphError(f"the control return '{name}' names no node of the function")
        return names


def _in_insertion_order(nodes: Mapping[str, NodeDef]) -> tuple[NodeDef, ...]:
    if not nodes:
        return ()
    view = GraphView.of(GraphDef(node=nodes.values()))
    return tuple(nodes[view.names[i]] for i in insertion_order(view))
