"""Gradients of a step as one flat array, on their way to other processes and back."""

import math
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tfwave.errors import EnforcerError

_Apply = Callable[[Sequence[Any]], None]
"""Takes a gradient for each variable; None: it has none."""


def apply_exchanged(
    grads: Sequence[Any], variables: Sequence[Any], exchange: Callable[[Any], Any], apply: _Apply
) -> None:
    """Hand gradients to `exchange`, and apply what it gives, one row after the other; also while a graph is traced.

    Args:
        grads: one for each variable, or None.
        variables: of one dtype.
        exchange: takes a flat array, and gives as many rows of that length as have come, perhaps none.
        apply: called while the graph is traced.
    """
    tensorflow: Any = __import__("tensorflow")
    pieces = [
        tensorflow.zeros(size_of(variable), variable.dtype)
        if grad is None
        else tensorflow.reshape(grad, [-1])
        for grad, variable in zip(grads, variables, strict=True)
    ]
    flat = tensorflow.concat(pieces, 0)
    rows = tensorflow.numpy_function(exchange, [flat], flat.dtype, stateful=True)
    rows.set_shape([None, flat.shape[0]])
    _apply_rows(rows, variables, [grad is not None for grad in grads], apply)


def function_of_rows(
    variables: Sequence[Any], present: Sequence[bool], apply: _Apply
) -> Callable[[Any], None]:
    """A function that applies rows outside of a step, to the same bits as in one.

    Op by op there are others: TensorFlow rewrites the arithmetic of a graph, as a division by a constant.
    """
    tensorflow: Any = __import__("tensorflow")
    flat = tensorflow.TensorSpec([None, sum(map(size_of, variables))], variables[0].dtype)

    def apply_all(rows: Any) -> None:
        _apply_rows(rows, variables, present, apply)

    return tensorflow.function(apply_all, input_signature=[flat], autograph=False)


def _apply_rows(rows: Any, variables: Sequence[Any], present: Sequence[bool], apply: _Apply) -> None:
    """Apply each; a variable that is not `present` has no gradient."""
    tensorflow: Any = __import__("tensorflow")

    def is_one_left(number: Any) -> Any:
        return number < tensorflow.shape(rows)[0]

    def apply_one(number: Any) -> Any:
        pieces = tensorflow.split(rows[number], [size_of(each) for each in variables])
        apply(
            [
                tensorflow.reshape(piece, variable.shape) if is_present else None
                for piece, variable, is_present in zip(pieces, variables, present, strict=True)
            ]
        )
        return [number + 1]

    tensorflow.while_loop(is_one_left, apply_one, [tensorflow.constant(0)], parallel_iterations=1)


def size_of(variable: Any) -> int:
    """Its elements."""
    return math.prod(variable.shape)


def settable_rate(optimizer: Any) -> float | None:
    """The learning rate of an optimizer of Keras 3 or tf_keras; None where it is a schedule's, or there is none."""
    rate = getattr(optimizer, "_learning_rate", None)
    return float(np.asarray(rate)) if hasattr(rate, "assign") else None


def as_function(step: Callable[..., Any]) -> Any:
    """A `tf.function` of a Python function, or of a `tf.function`'s and its signature, that was never traced."""
    tensorflow: Any = __import__("tensorflow")
    signature = getattr(step, "input_signature", None)
    return tensorflow.function(getattr(step, "python_function", step), input_signature=signature)


@contextmanager
def told(failure: Callable[[], str]) -> Generator[None]:
    """Raise the failure of an exchange, if there is one, in the place of TensorFlow's wrapping of it.

    Raises:
        EnforcerError: there is one.
    """
    tensorflow: Any = __import__("tensorflow")
    try:
        yield
    except tensorflow.errors.OpError as err:
        if failure():
            raise EnforcerError(failure()) from err
        raise
