"""How many bytes a variable holds, from its own attributes."""

import math
from typing import Any

from tfwave.graph.ops import REF
from tfwave.proto.tensorflow_pb2 import DataType

_WIDTHS = {
    "DT_COMPLEX128": 16,
    **dict.fromkeys(("DT_DOUBLE", "DT_INT64", "DT_UINT64", "DT_COMPLEX64"), 8),
    **dict.fromkeys(("DT_FLOAT", "DT_INT32", "DT_UINT32", "DT_QINT32"), 4),
    **dict.fromkeys(("DT_HALF", "DT_BFLOAT16", "DT_INT16", "DT_UINT16", "DT_QINT16", "DT_QUINT16"), 2),
}
"""Bytes of one element; all other types count as 1."""


def resident_bytes(node: Any) -> int:
    """Bytes of a variable's node (a NodeDef, tfwave's or TensorFlow's); 0 where it does not say."""
    shape, dtype = node.attr.get("shape"), node.attr.get("dtype")
    if shape is None or dtype is None or shape.shape.unknown_rank:
        return 0
    elements = math.prod(dim.size for dim in shape.shape.dim)
    return max(0, elements) * _width(dtype.type % REF)


def _width(kind: int) -> int:
    return _WIDTHS.get(DataType.Name(kind), 1) if kind in DataType.values() else 1
