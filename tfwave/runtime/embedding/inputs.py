"""What steps take, which stays with the process that prepares it until a step of a call is about to need it.

TensorFlow sends a function's arguments one after the other, before it begins; a handle says only where they are.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from tfwave.graph.access import ANONYMOUS
from tfwave.runtime.embedding.alone import own_task


def left_here(vector: Any, batch: Any, spec: Any) -> tuple[Any, ...]:
    """Handles of a batch's row sets, packed, and of each tensor of what its step gets beside rows.

    Each tensor is kept as long as its handle. TensorFlow makes a function ready anew for handles of other shapes:
    what the spec of the dataset leaves open, they do, too.
    """
    tensorflow: Any = import_module("tensorflow")
    found = tensorflow.nest.flatten((vector, batch), expand_composites=True)
    flat = [value for value in found if value is not None]
    with tensorflow.device(f"{own_task()}device:CPU:0"):
        return tuple(_handle_of(value, own.shape) for value, own in zip(flat, _flat(spec), strict=True))


def _handle_of(value: Any, shape: Any) -> Any:
    raw: Any = import_module("tensorflow").raw_ops
    handle = raw.VarHandleOp(dtype=value.dtype, shape=shape, shared_name=ANONYMOUS)
    raw.AssignVariableOp(resource=handle, value=value)
    return handle


def handle_specs(spec: Any) -> tuple[Any, ...]:
    """Of what `left_here` gives."""
    tensorflow: Any = import_module("tensorflow")
    return (tensorflow.TensorSpec([], tensorflow.resource),) * len(_flat(spec))


def fetched(handles: Sequence[Any], spec: Any, behind: Sequence[Any] = ()) -> tuple[Any, Any]:
    """What they stand for, in a traced function: it leaves its place when these ops are done."""
    tensorflow: Any = import_module("tensorflow")
    with tensorflow.control_dependencies(behind):
        vector, *flat = map(_read, handles, _flat(spec))
    return vector, tensorflow.nest.pack_sequence_as(spec[1], flat, expand_composites=True)


def _read(handle: Any, spec: Any) -> Any:
    found = import_module("tensorflow").raw_ops.ReadVariableOp(resource=handle, dtype=spec.dtype)
    found.set_shape(spec.shape)
    return found


def _flat(spec: Any) -> list[Any]:
    """Of the tensors that a step takes, if its dataset has this spec; None is none."""
    tensorflow: Any = import_module("tensorflow")
    vector = tensorflow.TensorSpec([None], "int32")
    return [vector, *tensorflow.nest.flatten(spec[1], expand_composites=True)]
