"""The signatures of TensorFlow's ops, known without TensorFlow: what goes in and out, and of which type."""

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files

from tfwave.errors import GraphError
from tfwave.graph.own_ops import own_ops
from tfwave.proto.tensorflow_pb2 import AttrValue, FunctionDef, GraphDef, NodeDef, OpDef, OpList

_TABLE = "ops.pb"
MOST_TENSORS = 2**20
"""One argument has no more; more are taken for a damaged graph."""
_FUNCTION_TYPES = ("func", "list(func)")
REF = 100
"""A reference type is its plain type + 100 (DT_FLOAT_REF = DT_FLOAT + 100)."""


class OpTable:
    """The ops that TensorFlow registers, tfwave's copies, and the functions of one library, by name."""

    def __init__(self, functions: Iterable[FunctionDef] = ()) -> None:
        """Know TensorFlow's ops, and `functions` as ops of their own."""
        self._functions = {f.signature.name: f.signature for f in functions}

    @classmethod
    def of(cls, graph: GraphDef) -> "OpTable":
        """The ops that the nodes of a graph may use."""
        return cls(graph.library.function)

    def known(self, op: str) -> OpDef | None:
        """The signature of an op; None if neither TensorFlow nor the library has it."""
        return self._functions.get(op) or _registered().get(op)

    def signature(self, node: NodeDef) -> OpDef:
        """The signature of a node's op.

        Raises:
            GraphError: neither TensorFlow nor the library has it.
        """
        found = self.known(node.op)
        if found is None:
            raise GraphError(
                f"node '{node.name}': the op '{node.op}' is unknown: no op of TensorFlow, no function of the "
                f"graph's library; if it comes from a library of your own, say --custom-op {node.op}"
            )
        return found

    def function_attrs(self, node: NodeDef) -> tuple[str, ...]:
        """The attributes of a node that name functions which it calls.

        Raises:
            GraphError: as `signature`.
        """
        return tuple(attr.name for attr in self.signature(node).attr if attr.type in _FUNCTION_TYPES)

    def calls_functions(self, node: NodeDef) -> bool:
        """Whether a node calls functions, by its attributes or by its op.

        Raises:
            GraphError: as `signature`.
        """
        return node.op in self._functions or bool(self.function_attrs(node))

    def input_count(self, op: str) -> int | None:
        """How many tensors an op takes; None if its attributes tell.

        Raises:
            GraphError: as `signature`.
        """
        args = self.signature(NodeDef(op=op)).input_arg
        return None if any(arg.number_attr or arg.type_list_attr for arg in args) else len(args)

    def input_types(self, node: NodeDef) -> list[int]:
        """The type (`DataType`) of each data input, by position.

        Raises:
            GraphError: an unknown op, or a node that lacks an attribute of its op.
        """
        signature = self.signature(node)
        return [t for arg in signature.input_arg for t in _types(node, signature, arg)]

    def output_types(self, node: NodeDef) -> list[int]:
        """The type (a `DataType`) of each output, by port.

        Raises:
            GraphError: as `input_types`.
        """
        signature = self.signature(node)
        return [t for arg in signature.output_arg for t in _types(node, signature, arg)]

    def output_ports(self, node: NodeDef) -> Mapping[str, range]:
        """The ports that each output argument covers: function bodies write ``node:argument:index``.

        Raises:
            GraphError: as `input_types`.
        """
        signature = self.signature(node)
        ports: dict[str, range] = {}
        start = 0
        for arg in signature.output_arg:
            ports[arg.name] = range(start, start + len(_types(node, signature, arg)))
            start = ports[arg.name].stop
        return ports


def unknown_ops(graph: GraphDef) -> frozenset[str]:
    """The ops of a graph and its functions that neither TensorFlow nor the graph's library has."""
    table = OpTable.of(graph)
    bodies = (function.node_def for function in graph.library.function)
    ops = {node.op for nodes in (graph.node, *bodies) for node in nodes}
    return frozenset(op for op in ops if table.known(op) is None)


def _types(node: NodeDef, signature: OpDef, arg: OpDef.ArgDef) -> list[int]:
    """The types of one argument, which may stand for several tensors or for none."""
    if arg.type_list_attr:
        return [*_attr(node, signature, arg.type_list_attr).list.type]
    kind = _attr(node, signature, arg.type_attr).type if arg.type_attr else arg.type
    if arg.is_ref and kind < REF:
        kind += REF
    return [kind] * (_count(node, signature, arg.number_attr) if arg.number_attr else 1)


def _count(node: NodeDef, signature: OpDef, name: str) -> int:
    count = _attr(node, signature, name).i
    if not 0 <= count <= MOST_TENSORS:
        raise GraphError(f"node '{node.name}': {node.op} cannot have the attribute '{name}' = {count}")
    return count


def _attr(node: NodeDef, signature: OpDef, name: str) -> AttrValue:
    value = node.attr.get(name)
    if value is not None:
        return value
    declared = next((a for a in signature.attr if a.name == name), None)
    if declared is None or not declared.HasField("default_value"):
        raise GraphError(f"node '{node.name}': {node.op} needs the attribute '{name}'")
    return declared.default_value


@cache
def _registered() -> Mapping[str, OpDef]:
    table = OpList.FromString((files("tfwave.graph") / _TABLE).read_bytes())
    return {op.name: op for op in (*table.op, *own_ops())}
