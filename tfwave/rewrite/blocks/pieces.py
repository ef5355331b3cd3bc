"""The few nodes that take tensors apart and put them together."""

from collections.abc import Sequence
from dataclasses import dataclass

from tfwave.graph.names import TensorName
from tfwave.graph.rewriter import GraphRewriter
from tfwave.proto.tensorflow_pb2 import DT_BOOL, DT_INT32, AttrValue, DataType, NodeDef
from tfwave.rewrite.blocks.layout import Layout

_INT32 = AttrValue(type=DT_INT32)


@dataclass(frozen=True)
class Blocks:
    """The tensors of type `kind` that together are one tensor, in order."""

    names: tuple[str, ...]
    layout: Layout
    kind: DataType


def add_split(
    graph: GraphRewriter, tensor: TensorName, layout: Layout, kind: DataType, device: str
) -> Blocks:
    """Split a tensor of the layout's shape on a device."""
    name = f"{tensor.node}/split_{tensor.port}_into_{len(layout)}"
    source = f"{tensor.node}:{tensor.port}" if tensor.port else tensor.node
    if layout.is_folded:
        node = NodeDef(name=f"{name}/folded", op="Reshape", input=[source], device=device)
        source = _add_reshape(graph, node, layout.folded, kind)
    sizes = _add_const(graph, f"{name}/sizes", layout.rows, device)
    axis = _add_const(graph, f"{name}/axis", 0, device)
    attrs = {"T": AttrValue(type=kind), "Tlen": _INT32, "num_split": AttrValue(i=len(layout))}
    graph.add_node(name, "SplitV", [source, sizes, axis], device=device, attrs=attrs)
    return Blocks((name, *(f"{name}:{port}" for port in range(1, len(layout)))), layout, kind)


def add_whole(graph: GraphRewriter, name: str, blocks: Blocks, device: str) -> None:
    """Join blocks on a device, in the place of the node of that name if there is one."""
    joined = f"{name}/concat" if blocks.layout.is_folded else name
    axis = _add_const(graph, f"{name}/axis", 0, device)
    node = NodeDef(name=joined, op="ConcatV2", input=[*blocks.names, axis], device=device)
    node.attr["T"].type = blocks.kind
    node.attr["N"].i = len(blocks.names)
    node.attr["Tidx"].CopyFrom(_INT32)
    _put(graph, node)
    if blocks.layout.is_folded:
        whole = NodeDef(name=name, op="Reshape", input=[joined], device=device)
        _add_reshape(graph, whole, blocks.layout.shape, blocks.kind)


def add_question(graph: GraphRewriter, name: str, answers: Sequence[str], device: str) -> None:
    """Replace a node by whether all of some booleans are true."""
    count = AttrValue(i=len(answers))
    attrs = {"T": AttrValue(type=DT_BOOL), "N": count, "axis": AttrValue(i=0)}
    graph.add_node(f"{name}/each", "Pack", answers, device=device, attrs=attrs)
    axis = _add_const(graph, f"{name}/axis", 0, device)
    node = NodeDef(name=name, op="All", input=[f"{name}/each", axis], device=device)
    node.attr["Tidx"].CopyFrom(_INT32)
    _put(graph, node)


def _add_reshape(graph: GraphRewriter, node: NodeDef, shape: Sequence[int], kind: DataType) -> str:
    node.input.append(_add_const(graph, f"{node.name}/shape", shape, node.device))
    node.attr["T"].type = kind
    node.attr["Tshape"].CopyFrom(_INT32)
    _put(graph, node)
    return node.name


def _add_const(graph: GraphRewriter, name: str, values: int | Sequence[int], device: str) -> str:
    """A scalar or a vector of int32."""
    value = AttrValue()
    value.tensor.dtype = DT_INT32
    if isinstance(values, int):
        value.tensor.int_val.append(values)
        value.tensor.tensor_shape.SetInParent()
    else:
        value.tensor.int_val.extend(values)
        value.tensor.tensor_shape.dim.add(size=len(values))
    return graph.add_node(name, "Const", device=device, attrs={"dtype": _INT32, "value": value})


def _put(graph: GraphRewriter, node: NodeDef) -> None:
    if graph.has_node(node.name):
        graph.replace_node(node)
    else:
        graph.insert(node)
