"""Gradients of a step as one flat array, on their way to other processes and back.

Optimizers may leave rows of an embedding alone that a step did not look up. In the array such rows are -0.0: a sum
is that only where all that is added is.
"""

import math
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from enum import Enum, auto
from typing import Any, Protocol

import numpy as np

from tfwave.errors import EnforcerError


class Kind(Enum):
    """What a step has as the gradient of a variable."""

    NONE = auto()
    DENSE = auto()
    ROWS = auto()
    """Of some rows, as `tf.IndexedSlices`."""

    @classmethod
    def of(cls, grad: Any) -> "Kind":
        """That of a gradient, or of None."""
        tensorflow: Any = __import__("tensorflow")
        if grad is None:
            return cls.NONE
        return cls.ROWS if isinstance(grad, tensorflow.IndexedSlices) else cls.DENSE


_Apply = Callable[[Sequence[Any]], None]
"""Takes a gradient for each variable; None: it has none."""
_COUNTER = "_u_product_counter"
"""In tf_keras's Nadam: how often an update was traced; each trace keeps the number that it found."""


class Exchange(Protocol):
    """Where gradients go, and what comes back."""

    @property
    def buckets(self) -> Sequence[range]:
        """Of the variables: whose gradients go together."""
        ...

    @property
    def moves(self) -> bool:
        """Whether a row may be what weights move by, and no gradient."""
        ...

    def put(self, piece: Any, number: Any) -> Any:
        """Take a bucket, a flat array, whose number it gives back: each is put behind the one before."""
        ...

    def collect(self, number: Any) -> tuple[Any, ...]:
        """As many rows of all variables as have come, perhaps none; with `moves` also which of them are such.

        Called with the number of the last bucket.
        """
        ...


def apply_exchanged(
    grads: Sequence[Any], variables: Sequence[Any], exchange: Exchange, apply: _Apply
) -> None:
    """Hand gradients to `exchange`, and apply what it gives, one row after the other; also while a graph is traced.

    Each bucket goes when the gradients in it are there, while others are computed.

    Args:
        grads: one for each variable, or None.
        variables: of one dtype.
        exchange: called when the graph runs.
        apply: called while the graph is traced.
    """
    tensorflow: Any = __import__("tensorflow")
    pieces = [_flat(grad, variable) for grad, variable in zip(grads, variables, strict=True)]
    number = tensorflow.constant(0)
    for bucket in exchange.buckets:
        flat = tensorflow.concat([pieces[i] for i in bucket], 0)
        number = tensorflow.numpy_function(exchange.put, [flat, number], number.dtype, stateful=True)
    dtype = pieces[0].dtype
    kinds = [dtype, tensorflow.bool] if exchange.moves else [dtype]
    given = tensorflow.numpy_function(exchange.collect, [number], kinds, stateful=True)
    rows, *which = tensorflow.nest.flatten(given)  # of one, where functions run eagerly, it is that one
    rows.set_shape([None, sum(map(size_of, variables))])
    _apply_rows(rows, which, variables, list(map(Kind.of, grads)), apply)


def function_of_rows(
    variables: Sequence[Any], kinds: Sequence[Kind], apply: _Apply, moves: bool = False
) -> Callable[..., None]:
    """A function that applies what an exchange gave outside of a step, to the same bits as in one.

    Op by op there are others: TensorFlow rewrites the arithmetic of a graph, as a division by a constant.
    """
    tensorflow: Any = __import__("tensorflow")
    flat = tensorflow.TensorSpec([None, sum(map(size_of, variables))], variables[0].dtype)

    which = [tensorflow.TensorSpec([None], tensorflow.bool)] if moves else []

    def apply_all(rows: Any, *which: Any) -> None:
        _apply_rows(rows, which, variables, kinds, apply)

    return tensorflow.function(apply_all, input_signature=[flat, *which], autograph=False)


def begin_trace(optimizer: Any) -> None:
    """Let what an optimizer applies be traced as it is first, so that all traces give the same bits."""
    tensorflow: Any = __import__("tensorflow")
    if hasattr(optimizer, _COUNTER) and not tensorflow.executing_eagerly():
        setattr(optimizer, _COUNTER, 1)


def _apply_rows(
    rows: Any, which: Sequence[Any], variables: Sequence[Any], kinds: Sequence[Kind], apply: _Apply
) -> None:
    """One after the other; `which` says of each, if it is given, whether variables move by it."""
    tensorflow: Any = __import__("tensorflow")

    def is_one_left(number: Any) -> Any:
        return number < tensorflow.shape(rows)[0]

    def apply_one(number: Any) -> Any:
        pieces = tensorflow.split(rows[number], [size_of(each) for each in variables])

        def step() -> Any:
            apply([_gradient(*each) for each in zip(pieces, variables, kinds, strict=True)])
            return number + 1

        def move() -> Any:
            for piece, variable in zip(pieces, variables, strict=True):
                variable.assign_add(tensorflow.reshape(piece, variable.shape))
            return number + 1

        return [tensorflow.cond(which[0][number], move, step) if which else step()]

    tensorflow.while_loop(is_one_left, apply_one, [tensorflow.constant(0)], parallel_iterations=1)


def _flat(grad: Any, variable: Any) -> Any:
    tensorflow: Any = __import__("tensorflow")
    if grad is None:
        return tensorflow.zeros(size_of(variable), variable.dtype)
    if Kind.of(grad) is Kind.DENSE:
        return tensorflow.reshape(grad, [-1])
    rows = variable.shape[0]
    values = tensorflow.reshape(grad.values, [-1, size_of(variable) // rows])
    sums = tensorflow.math.unsorted_segment_sum(values, grad.indices, rows)
    ones = tensorflow.ones_like(grad.indices)
    is_there = tensorflow.math.unsorted_segment_sum(ones, grad.indices, rows)[:, None] > 0
    return tensorflow.reshape(tensorflow.where(is_there, sums, tensorflow.constant(-0.0, sums.dtype)), [-1])


def _gradient(piece: Any, variable: Any, kind: Kind) -> Any:
    """What `_flat` was made of, or a sum of such."""
    tensorflow: Any = __import__("tensorflow")
    if kind is Kind.NONE:
        return None
    whole = tensorflow.reshape(piece, variable.shape)
    if kind is Kind.DENSE:
        return whole
    number = tensorflow.as_dtype(f"int{8 * piece.dtype.size}")  # of -0.0 the least of all
    bits = tensorflow.bitcast(tensorflow.reshape(piece, [variable.shape[0], -1]), number)
    indices = tensorflow.where(tensorflow.reduce_any(bits != number.min, axis=1))[:, 0]
    return tensorflow.IndexedSlices(tensorflow.gather(whole, indices), indices, tensorflow.shape(whole))


def size_of(variable: Any) -> int:
    """Its elements."""
    return math.prod(variable.shape)


def settable_rate(optimizer: Any) -> float | None:
    """The learning rate of an optimizer of Keras 3 or tf_keras; None where it is a schedule's, or there is none."""
    rate = getattr(optimizer, "_learning_rate", None)
    return float(np.asarray(rate)) if hasattr(rate, "assign") else None


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
