"""Attribute values as short text: equal values, equal text; large tensors and strings as a digest."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from tfwave.proto.tensorflow_pb2 import (
    DT_BOOL,
    DT_DOUBLE,
    DT_FLOAT,
    DT_INT8,
    DT_INT16,
    DT_INT32,
    DT_INT64,
    DT_UINT8,
    AttrValue,
    DataType,
    NameAttrList,
    TensorProto,
    TensorShapeProto,
)

_MOST_VALUES = 8
_MOST_BYTES = 200


def attr_text(value: AttrValue) -> str:
    """One attribute value in one line, for people and for comparison. NaNs are alike."""
    kind = value.WhichOneof("value")
    return _KINDS[kind](getattr(value, kind)) if kind else "unset"


def attrs_text(attrs: Mapping[str, AttrValue]) -> dict[str, str]:
    """Attributes by name, in the order of the names."""
    return {name: attr_text(attrs[name]) for name in sorted(attrs)}


def type_text(value: int) -> str:
    """``DT_FLOAT``; the bare number for a type that only newer versions of TensorFlow have."""
    try:
        return DataType.Name(value)
    except ValueError:
        return str(value)


def digest(data: bytes) -> str:
    """128 bits of the SHA-256 of some bytes."""
    return f"sha256:{hashlib.sha256(data).hexdigest()[:32]}"


def _list_text(value: AttrValue.ListValue) -> str:
    texts = [_KINDS[field.name](entry) for field, entries in value.ListFields() for entry in entries]
    return f"[{', '.join(texts)}]"


def _bytes_text(value: bytes) -> str:
    return repr(value)[1:] if len(value) <= _MOST_BYTES else f"<{len(value)} bytes {digest(value)}>"


def _bool_text(value: bool) -> str:
    return "true" if value else "false"


def _float_text(value: float) -> str:
    return str(np.float32(value))


def _shape_text(value: TensorShapeProto) -> str:
    dims = [("?" if dim.size == -1 else str(dim.size)) + (dim.name and f":{dim.name}") for dim in value.dim]
    return "[...]" if value.unknown_rank else f"[{', '.join(dims)}]"


def _func_text(value: NameAttrList) -> str:
    return f"{value.name}{{{', '.join(f'{k} = {v}' for k, v in attrs_text(value.attr).items())}}}"


def _tensor_text(value: TensorProto) -> str:
    contents = _small_contents(value) or digest(value.SerializeToString(deterministic=True))
    return f"{type_text(value.dtype)} {_shape_text(value.tensor_shape)} {contents}"


def _small_contents(tensor: TensorProto) -> str | None:
    """The values, where they are few and in one field; else None."""
    fields = [(f.name, v) for f, v in tensor.ListFields() if f.name not in ("dtype", "tensor_shape")]
    if len(fields) != 1:
        return None if fields else "{}"
    name, values = fields[0]
    if name == "tensor_content":
        return _small_buffer(values, _NUMPY_TYPES.get(tensor.dtype))
    if name not in _FIELDS or len(values) > _MOST_VALUES:
        return None
    return f"{name} {_braced(map(_FIELDS[name], values))}"


def _small_buffer(data: bytes, numpy_type: str | None) -> str | None:
    if numpy_type is None or len(data) % np.dtype(numpy_type).itemsize:
        return None
    values: list[Any] = list(np.frombuffer(data, numpy_type))
    return _braced(map(str, values)) if len(values) <= _MOST_VALUES else None


def _braced(texts: Iterable[str]) -> str:
    return f"{{{', '.join(texts)}}}"


_KINDS: Mapping[str, Callable[[Any], str]] = {
    "list": _list_text,
    "s": _bytes_text,
    "i": str,
    "f": _float_text,
    "b": _bool_text,
    "type": type_text,
    "shape": _shape_text,
    "tensor": _tensor_text,
    "placeholder": lambda name: f"${name}",
    "func": _func_text,
}
_FIELDS: Mapping[str, Callable[[Any], str]] = {
    "float_val": _float_text,
    "double_val": repr,
    "int_val": str,
    "int64_val": str,
    "uint32_val": str,
    "uint64_val": str,
    "half_val": str,
    "bool_val": _bool_text,
    "scomplex_val": _float_text,
    "dcomplex_val": repr,
    "string_val": _bytes_text,
}
_NUMPY_TYPES: Mapping[int, str] = {
    DT_FLOAT: "<f4",
    DT_DOUBLE: "<f8",
    DT_INT8: "i1",
    DT_INT16: "<i2",
    DT_INT32: "<i4",
    DT_INT64: "<i8",
    DT_UINT8: "u1",
    DT_BOOL: "u1",
}
"""How `tensor_content` is laid out; types that are not listed are shown as a digest."""
