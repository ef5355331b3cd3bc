"""What placement asks of an op's signature; answered once per op where the op alone decides."""

import re
from typing import cast

from tfwave.graph.flow_ops import CALL_OPS
from tfwave.graph.ops import REF, OpTable
from tfwave.proto.tensorflow_pb2 import DT_RESOURCE, DT_VARIANT, DataType, NodeDef, OpDef

METADATA_OPS = frozenset({"Shape", "Size", "Rank"})
IDENTITY_OPS = frozenset({"Identity", "RefIdentity"})

_FORWARDS_HANDLES = frozenset(
    {
        *CALL_OPS,
        "BatchFunction",
        "DeleteMultiDeviceIterator",
        "IdentityN",
        "RpcServerRegister",
    }
)
_DATASET = re.compile(r"DatasetFromGraph|.*Dataset(V\d+)?")


def is_ref(kind: int) -> bool:
    """Is it a reference to a variable of TensorFlow 1?"""
    return kind > REF


def is_handle(kind: int) -> bool:
    """Is it a reference or a resource: must who takes it be where it is?"""
    return is_ref(kind) or kind == DT_RESOURCE


def as_type(kind: int) -> DataType:
    """A type number as an attribute holds it."""
    return cast("DataType", kind)


def plain(kind: int) -> DataType:
    """The type behind a reference."""
    return as_type(kind % REF)


class Signatures:
    """Answers about nodes whose ops are those of one table."""

    def __init__(self, table: OpTable) -> None:
        """Answer for the ops of `table`."""
        self._table = table
        self._takes_handles: dict[str, bool] = {}
        self._is_dataset: dict[str, bool] = {}

    def handle_inputs(self, node: NodeDef) -> list[int]:
        """The positions of the inputs that pull a node to the device of their source.

        Raises:
            GraphError: an unknown op, or a node that lacks an attribute of its op.
        """
        takes = self._takes_handles.get(node.op)
        if takes is None:
            takes = self._takes_handles[node.op] = _may_take_handles(self._table.signature(node))
        if not takes:
            return []
        return [i for i, kind in enumerate(self._table.input_types(node)) if is_handle(kind)]

    def is_dataset(self, node: NodeDef) -> bool:
        """Does the op make a tf.data dataset?

        Raises:
            GraphError: an unknown op.
        """
        known = self._is_dataset.get(node.op)
        if known is None:
            known = self._is_dataset[node.op] = _makes_dataset(self._table.signature(node))
        return known

    def only_output(self, node: NodeDef) -> int | None:
        """The type of a node's output, if it has exactly one.

        Raises:
            GraphError: as `handle_inputs`.
        """
        types = self._table.output_types(node)
        return types[0] if len(types) == 1 else None


def _may_take_handles(signature: OpDef) -> bool:
    """An op that hands its inputs on, such as to a function, which may run elsewhere, does not count."""
    if signature.name in _FORWARDS_HANDLES or _maps_dataset(signature):
        return False
    attrs = {attr.name: attr for attr in signature.attr}
    for arg in signature.input_arg:
        if arg.is_ref or arg.type == DT_RESOURCE:
            return True
        kinds = attrs.get(arg.type_attr or arg.type_list_attr)
        if kinds is not None and DT_RESOURCE in (kinds.allowed_values.list.type or (DT_RESOURCE,)):
            return True
    return False


def _maps_dataset(signature: OpDef) -> bool:
    takes_function = any(attr.type in ("func", "list(func)") for attr in signature.attr)
    return takes_function and "Dataset" in signature.name


def _makes_dataset(signature: OpDef) -> bool:
    outputs = signature.output_arg
    is_named = _DATASET.fullmatch(signature.name) is not None
    return is_named and len(outputs) == 1 and outputs[0].type == DT_VARIANT
