"""The tensors that go into a step and come out of it."""

import importlib
import inspect
import math
import pprint
from collections.abc import Mapping
from typing import Any

from tfwave.errors import EnforcerError


def arguments(batch: Any) -> tuple[Any, ...]:
    """What a step is called with: the parts of a tuple, or the batch as it is."""
    return batch if isinstance(batch, tuple) else (batch,)  # pyright: ignore[reportUnknownVariableType]


def bound_to(step: Any, batch: tuple[Any, ...], named: Mapping[str, Any]) -> inspect.BoundArguments:
    """What a `tf.function` is called with, defaults included.

    Raises:
        TypeError: the function takes no such arguments.
    """
    bound = inspect.signature(step.python_function).bind(*batch, **named)
    bound.apply_defaults()
    return bound


def by_place(step: Any, batch: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a `tf.function` is called with, all by its place: what is given by name, too, and what stands before it.

    Raises:
        TypeError: the function takes no such arguments.
        EnforcerError: it takes one of them by name alone.
    """
    if not named:
        return batch
    bound = bound_to(step, batch, named)
    alone = ", ".join(name for name in bound.kwargs if name in named)
    if alone:
        raise EnforcerError(f"the step takes {alone} by name alone: let it take that by place, too")
    return bound.args


def kind_of(batch: tuple[Any, ...]) -> tuple[str, ...]:
    """What is traced by itself, of each argument.

    Shape and type of each tensor or array, the value of whatever else there is, and how all are put together, the
    keys of dicts included.
    """
    map_structure = _tensorflow().nest.map_structure
    return tuple([pprint.saferepr(map_structure(_kind, argument)) for argument in batch])


def lengths_of(batch: tuple[Any, ...]) -> tuple[int, ...]:
    """What differs between batches of a kind: how many values ragged and sparse tensors have, and the longest rows.

    Where none of it is larger, a step takes no more.
    """
    return tuple([length for leaf in _tensorflow().nest.flatten(batch) for length in _lengths(leaf)])


def bytes_of(batch: tuple[Any, ...]) -> int:
    """What the tensors and arrays hold, those that ragged and sparse tensors consist of, too."""
    return sum(map(_bytes, _tensorflow().nest.flatten(batch, expand_composites=True)))


def input_bytes(concrete: Any) -> list[int]:
    """What a trace is given, by the place among its arguments: the value of a variable, or a tensor of known shape.

    0 for all else.
    """
    captured = _captured_bytes(concrete)
    own = concrete.graph.inputs[: len(concrete.graph.inputs) - len(captured)]
    return [*map(_known_bytes, own), *captured]


def out_of_pool(value: Any) -> Any:
    """What a step returned, copied to memory of Python's own: NumPy arrays, sparse ones as sessions give them."""
    return _tensorflow().nest.map_structure(_copy, value)


class _Kind(str):
    """In a structure it is shown as it is."""

    def __repr__(self) -> str:
        return str(self)


def _kind(leaf: Any) -> _Kind:
    if not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")):
        return _Kind(repr(leaf))
    tensorflow = _tensorflow()
    how = {tensorflow.RaggedTensor: "ragged ", tensorflow.SparseTensor: "sparse "}.get(type(leaf), "")
    return _Kind(f"{how}{getattr(leaf.dtype, 'name', leaf.dtype)}{list(leaf.shape)}")


def _lengths(leaf: Any) -> list[int]:
    tensorflow = _tensorflow()
    if isinstance(leaf, tensorflow.RaggedTensor):
        return [int(leaf.flat_values.shape[0]), *map(int, leaf.bounding_shape()[1:])]
    return [int(leaf.values.shape[0])] if isinstance(leaf, tensorflow.SparseTensor) else []


def _bytes(leaf: Any) -> int:
    if not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")):
        return 0
    size = getattr(leaf.dtype, "itemsize", None) or getattr(leaf.dtype, "size", None) or 0
    return math.prod(map(int, leaf.shape)) * int(size)


def _captured_bytes(concrete: Any) -> list[int]:
    return [_variable_bytes(tensor) or _bytes(tensor) for tensor in concrete.captured_inputs]


def _known_bytes(tensor: Any) -> int:
    return _bytes(tensor) if tensor.shape.is_fully_defined() else 0


def _variable_bytes(handle: Any) -> int:
    told = getattr(handle, "_handle_data", None)
    if told is None:
        return 0
    as_dtype = _tensorflow().dtypes.as_dtype
    return sum(
        max(0, math.prod(dim.size for dim in each.shape.dim)) * as_dtype(each.dtype).size
        for each in told.shape_and_type
    )


def _copy(leaf: Any) -> Any:
    numpy, tensorflow = importlib.import_module("numpy"), _tensorflow()
    if isinstance(leaf, tensorflow.SparseTensor):
        parts = map(_copy, (leaf.indices, leaf.values, leaf.dense_shape))
        return tensorflow.compat.v1.SparseTensorValue(*parts)
    if hasattr(leaf, "numpy"):
        return numpy.array(leaf.numpy())
    return numpy.array(leaf) if isinstance(leaf, numpy.ndarray) else leaf


def _tensorflow() -> Any:
    return importlib.import_module("tensorflow")
