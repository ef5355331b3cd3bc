"""Static shapes, as far as the graph itself says them."""

from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from math import prod

import numpy as np

from tfwave.graph.access import VARIABLE_OPS
from tfwave.graph.attrs import NOTED_SHAPES
from tfwave.graph.names import TensorName, parse_input
from tfwave.graph.view import GraphView
from tfwave.proto.tensorflow_pb2 import DT_INT32, DT_INT64, NodeDef, TensorProto, TensorShapeProto
from tfwave.rewrite.blocks.elementwise import BINARY, UNARY

Shape = tuple[int | None, ...] | None
"""None for a dimension that is not known; None in all where not even their number is."""

_MOST_DIMENSIONS = 32
_SCALAR_PLACEHOLDERS = 24
"""The first version of GraphDefs whose placeholders of no dimension are scalars; before they were anything."""


def static_shapes(view: GraphView, producer: int) -> dict[str, Shape]:
    """The shape of each node's first output, by the node's name; nothing said, nothing known.

    Args:
        view: the graph.
        producer: the version in the GraphDef, which tells what a placeholder's shape without dimensions means.

    Raises:
        GraphError: a cycle that is not a while loop.
    """
    shapes = _Shapes(view, producer >= _SCALAR_PLACEHOLDERS)
    for node in view.topological_order:
        shapes.add(node)
    return shapes.known


def shape_of(proto: TensorShapeProto) -> Shape:
    """A shape as an attribute holds it."""
    if proto.unknown_rank:
        return None
    return tuple([None if dim.size < 0 else dim.size for dim in proto.dim])


class _Shapes:
    """What is known so far: shapes, and the values of small integer tensors that stand for shapes."""

    def __init__(self, view: GraphView, has_scalar_placeholders: bool) -> None:
        self.known: dict[str, Shape] = {}
        self._has_scalar_placeholders = has_scalar_placeholders
        self._values: dict[TensorName, Shape] = {}
        self._view = view

    def add(self, index: int) -> None:
        """Find the shape of a node whose fanins were added; those of back edges are unknown."""
        node, op = self._view.nodes[index], self._view.ops[index]
        inputs = [parse_input(text) for text in node.input[: self._view.data_fanins[index]]]
        shapes = [self.known.get(tensor.node) if tensor.port == 0 else None for tensor in inputs]
        values = [self._values.get(tensor) for tensor in inputs]
        self.known[node.name] = self._shape(node, op, shapes, values)
        if op == "Const" and "value" in node.attr:
            self._values[TensorName(node.name, 0)] = _integers(node.attr["value"].tensor)
        elif op in ("Shape", "ShapeN"):
            self._values |= {TensorName(node.name, port): shape for port, shape in enumerate(shapes)}

    def _shape(self, node: NodeDef, op: str, shapes: Sequence[Shape], values: Sequence[Shape]) -> Shape:
        """Case 1: an attribute says it. Case 2: an input's value does. Case 3: the inputs' shapes do."""
        if NOTED_SHAPES in node.attr and node.attr[NOTED_SHAPES].list.shape:
            return shape_of(node.attr[NOTED_SHAPES].list.shape[0])
        if op in _IN_ATTRIBUTE:
            shape = shape_of(node.attr["shape"].shape) if "shape" in node.attr else None
            return shape if shape or self._has_scalar_placeholders else None
        if op == "Const":
            return shape_of(node.attr["value"].tensor.tensor_shape) if "value" in node.attr else None
        if op in _IN_VALUE:
            position = _IN_VALUE[op]
            return values[position] if position < len(values) else None
        if op == "MatMul" and len(shapes) == 2:
            return _product(node, shapes[0], shapes[1])
        rule = _RULES.get(op)
        return rule(shapes) if rule and shapes else None


def _first(shapes: Sequence[Shape]) -> Shape:
    return shapes[0]


def _broadcast(shapes: Sequence[Shape]) -> Shape:
    if any(shape is None for shape in shapes):
        return None
    reversed_ = zip_longest(*(shape[::-1] for shape in shapes if shape is not None), fillvalue=1)
    return tuple([_widest(sizes) for sizes in reversed_][::-1])


def _widest(sizes: Sequence[int | None]) -> int | None:
    """The size that is not one; of an unknown and a one, unknown."""
    wide = next((size for size in sizes if size is not None and size != 1), None)
    return wide if wide is not None or None in sizes else 1


def _merged(shapes: Sequence[Shape]) -> Shape:
    """All inputs have one shape: what any of them says."""
    found = [shape for shape in shapes if shape is not None]
    if not found or len({len(shape) for shape in found}) > 1:
        return None
    return tuple(
        [next((size for size in sizes if size is not None), None) for sizes in zip(*found, strict=True)]
    )


def _product(node: NodeDef, left: Shape, right: Shape) -> Shape:
    if left is None or right is None or len(left) != 2 or len(right) != 2:
        return None
    flags = [name in node.attr and node.attr[name].b for name in ("transpose_a", "transpose_b")]
    return (left[1] if flags[0] else left[0], right[0] if flags[1] else right[1])


def _integers(tensor: TensorProto) -> Shape:
    """The values of a vector that may be a shape."""
    count = prod(dim.size for dim in tensor.tensor_shape.dim)
    kind = {DT_INT32: "<i4", DT_INT64: "<i8"}.get(tensor.dtype)
    if kind is None or len(tensor.tensor_shape.dim) != 1 or not 0 <= count <= _MOST_DIMENSIONS:
        return None
    given = list(tensor.int_val) or list(tensor.int64_val)
    if tensor.tensor_content and len(tensor.tensor_content) % np.dtype(kind).itemsize == 0:
        given = [int(value) for value in np.frombuffer(tensor.tensor_content, kind)]
    if not given and count:
        return None
    values = [*given, *given[-1:] * (count - len(given))]
    return tuple([None if value < 0 else value for value in values[:count]])


_IN_ATTRIBUTE = frozenset({"Placeholder", "PlaceholderWithDefault", *VARIABLE_OPS})
_IN_VALUE: Mapping[str, int] = {
    "Fill": 0,
    "RandomUniform": 0,
    "RandomStandardNormal": 0,
    "TruncatedNormal": 0,
    "Reshape": 1,
    "BroadcastTo": 1,
    "Conv2DBackpropFilter": 1,
    "Conv3DBackpropFilterV2": 1,
    "DepthwiseConv2dNativeBackpropFilter": 1,
}
"""Ops whose shape an input holds, and which."""
_SAME = frozenset({"BiasAdd", "Elu", "LeakyRelu", "Selu", "Softmax", "Softplus", "ZerosLike", "OnesLike"})
_SAME_AS_ALL = frozenset({"AddN", "ReluGrad", "Relu6Grad", "EluGrad", "TanhGrad", "SigmoidGrad"})
_RULES: Mapping[str, Callable[[Sequence[Shape]], Shape]] = {
    **dict.fromkeys(UNARY | _SAME | {"ReadVariableOp"}, _first),
    **dict.fromkeys(BINARY, _broadcast),
    **dict.fromkeys(_SAME_AS_ALL, _merged),
}
